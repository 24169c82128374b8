/** Files on their way into a session. */
import { randomKey } from "../../../api/client.js";
import { persist } from "../../../api/network.js";
import { checkSize } from "../../../api/requests.js";
import { upload } from "../../../api/upload.js";
import { useEffect, useRef, useState } from "../../../html.js";

const ATTEMPTS = 8;

let last = 0;

/** `files` are `{id, name, state, sent, artifact, problem}`; `sessionOf` makes the session when there is none yet. */
export function useAttachments(sessionOf) {
  const [files, setFiles] = useState([]);
  const under = useRef(new Map());
  const change = (id, fields) => setFiles((all) => all.map((each) => (each.id === id ? { ...each, ...fields } : each)));
  useEffect(() => () => under.current.forEach((stop) => stop.abort()), []);
  const send = async (id, file) => {
    const stop = under.current.get(id);
    if (stop.signal.aborted) return;
    try {
      // Before there is a session for it.
      checkSize(file);
      const path = `/sessions/${await sessionOf()}/artifacts/`;
      const given = { key: randomKey(), signal: stop.signal, onProgress: (sent) => change(id, { sent }) };
      const artifact = await persist(() => upload(path, file, given), { signal: stop.signal, attempts: ATTEMPTS });
      change(id, { state: "ready", artifact });
    } catch (problem) {
      change(id, { state: "failed", problem: problem.message });
    } finally {
      under.current.delete(id);
    }
  };
  return {
    files,
    add: async (chosen) => {
      const added = chosen.map((file) => ({ id: (last += 1), file }));
      for (const { id } of added) under.current.set(id, new AbortController());
      setFiles((all) => [...all, ...added.map(({ id, file }) => ({ id, name: file.name, state: "uploading", sent: 0, artifact: null, problem: "" }))]);
      // One after the other: the first one makes the session.
      for (const { id, file } of added) await send(id, file);
    },
    remove: (id) => {
      under.current.get(id)?.abort();
      setFiles((all) => all.filter((each) => each.id !== id));
    },
    clear: () => setFiles([]),
  };
}
