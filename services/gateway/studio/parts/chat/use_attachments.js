/** Files on their way into a session. */
import { send } from "../../api/client.js";
import { useState } from "../../app/html.js";

let last = 0;

/** `files` are `{id, name, state, artifact, problem}`; `sessionOf` makes the session when there is none yet. */
export function useAttachments(sessionOf) {
  const [files, setFiles] = useState([]);
  const change = (id, fields) => setFiles((all) => all.map((each) => (each.id === id ? { ...each, ...fields } : each)));
  const upload = async (file) => {
    const id = (last += 1);
    setFiles((all) => [...all, { id, name: file.name, state: "uploading", artifact: null, problem: "" }]);
    try {
      const form = new FormData();
      form.append("file", file);
      const signal = AbortSignal.timeout(600_000);
      const response = await send("POST", `/sessions/${await sessionOf()}/artifacts/`, { body: form, signal });
      change(id, { state: "ready", artifact: await response.json() });
    } catch (problem) {
      change(id, { state: "failed", problem: problem.message });
    }
  };
  return {
    files,
    add: async (chosen) => {
      // One after the other: the first one makes the session.
      for (const file of chosen) await upload(file);
    },
    remove: (id) => setFiles((all) => all.filter((each) => each.id !== id)),
    clear: () => setFiles([]),
  };
}
