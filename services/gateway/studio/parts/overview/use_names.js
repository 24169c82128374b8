/** The agents of the sessions that are shown: of the newest sessions at once, of others one after the other. */
import { read } from "../../api/client.js";
import { allows } from "../../api/session.js";
import { useEffect, useRef, useState } from "../../app/html.js";

const NEWEST = 100;
const UNKNOWN = "Session";

/** Names by the session's id; those of `sessionIds` come as they are read. */
export function useNames(sessionIds) {
  const [names, setNames] = useState(new Map());
  const wanted = useRef([]);
  const wake = useRef(() => {});
  wanted.current = sessionIds;
  useEffect(() => {
    if (!allows("sessions:read")) return undefined;
    const stop = new AbortController();
    const known = new Map();
    const follow = async () => {
      const { sessions } = await read("/sessions/", { limit: NEWEST }, stop);
      for (const each of sessions) known.set(each.session_id, nameOf(each));
      while (!stop.signal.aborted) {
        setNames(new Map(known));
        const id = wanted.current.find((each) => !known.has(each));
        if (id) known.set(id, await read(`/sessions/${id}/`, {}, stop).then(nameOf, () => UNKNOWN));
        else await new Promise((resolve) => (wake.current = resolve));
      }
    };
    // Who may not read them sees turns without their agents.
    follow().catch(() => null);
    return () => {
      stop.abort();
      wake.current();
    };
  }, []);
  useEffect(() => wake.current(), [sessionIds.join()]);
  return names;
}

function nameOf({ agent_config: config }) {
  return config?.name ?? UNKNOWN;
}
