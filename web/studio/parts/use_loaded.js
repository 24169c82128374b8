/** What the service answers to a read. It is asked again while it cannot be reached. */
import { followChanges } from "../../api/changes.js";
import { persist } from "../../api/network.js";
import { useEffect, useRef, useState } from "../../html.js";

const ANSWER_MS = 60_000;
const TOGETHER_MS = 500;
// Where much changes, lists are not read without a pause.
const BETWEEN_MS = 5_000;

/**
 * `{value, problem, refresh, set}`. `load(signal)` reads anew whenever `key` differs and on `refresh()`; what was read
 * before stays until then, so that nothing jumps. `changes`: kinds of events after which it is read anew, such as `agent`.
 */
export function useLoaded(load, key = "", { changes = "" } = {}) {
  const [shown, setShown] = useState({ value: null, problem: null });
  const latest = useRef(load);
  const running = useRef(null);
  latest.current = load;
  const refreshLatest = useRef(null);
  const refresh = async () => {
    running.current?.abort();
    const stop = (running.current = new AbortController());
    try {
      const value = await persist(() => latest.current(AbortSignal.any([stop.signal, AbortSignal.timeout(ANSWER_MS)])), { signal: stop.signal });
      if (!stop.signal.aborted) setShown({ value, problem: null });
    } catch (problem) {
      if (!stop.signal.aborted) setShown((now) => ({ ...now, problem }));
    }
  };
  refreshLatest.current = refresh;
  useEffect(() => {
    refresh();
    return () => running.current?.abort();
  }, [key]);
  useEffect(() => {
    if (!changes) return undefined;
    let timer = 0;
    let isReading = false;
    let isOld = false;
    let earliest = 0;
    let isShown = true;
    const plan = () => {
      isOld = true;
      // What is read for one change is not given up for the next: there may always be another one.
      if (!isReading) timer ||= setTimeout(again, Math.max(TOGETHER_MS, earliest - Date.now()));
    };
    const again = async () => {
      timer = 0;
      isReading = true;
      isOld = false;
      await refreshLatest.current();
      isReading = false;
      earliest = Date.now() + BETWEEN_MS;
      if (isOld && isShown) plan();
    };
    const stop = followChanges(changes.split(" "), plan);
    return () => {
      isShown = false;
      clearTimeout(timer);
      stop();
    };
  }, [changes]);
  return { ...shown, refresh, set: (value) => setShown({ value, problem: null }) };
}
