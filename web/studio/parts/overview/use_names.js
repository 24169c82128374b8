/** The agents of the sessions that are shown: of the newest sessions at once, of a few others one after the other. */
import { read } from "../../../api/client.js";
import { allows } from "../../../api/session.js";
import { sleep } from "../../../api/sleep.js";
import { useEffect, useRef, useState } from "../../../html.js";

const NEWEST = 100;
// More than these are read with the newest ones.
const FEW = 3;
const PAUSE_MS = 750;
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
    let newest = new Map();
    let others = new Map();
    // Of those that are shown, which were not among the newest.
    let old = new Set();
    const unknown = () => wanted.current.filter((each) => !newest.has(each) && !others.has(each));
    const readNewest = async () => {
      const { sessions } = await read("/sessions/", { limit: NEWEST }, stop);
      newest = new Map(sessions.map((each) => [each.session_id, nameOf(each)]));
      old = new Set(unknown());
    };
    const readOne = async (id) => others.set(id, await read(`/sessions/${id}/`, {}, stop).then(nameOf, () => UNKNOWN));
    const follow = async () => {
      await readNewest();
      while (!stop.signal.aborted) {
        others = new Map(wanted.current.filter((each) => others.has(each)).map((each) => [each, others.get(each)]));
        setNames(new Map([...newest, ...others]));
        if (!unknown().length) await new Promise((resolve) => (wake.current = resolve));
        await sleep(PAUSE_MS, stop.signal);
        const missing = unknown();
        if (missing.filter((each) => !old.has(each)).length > FEW) await readNewest();
        else if (missing.length) await readOne(missing[0]);
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
