/** What the service answers to a read. It is asked again while it cannot be reached. */
import { persist } from "../api/network.js";
import { useEffect, useRef, useState } from "../app/html.js";

const ANSWER_MS = 60_000;

/**
 * `{value, problem, refresh, set}`. `load(signal)` reads anew whenever `key` differs and on `refresh()`; what was read
 * before stays until then, so that nothing jumps.
 */
export function useLoaded(load, key = "") {
  const [shown, setShown] = useState({ value: null, problem: null });
  const latest = useRef(load);
  const running = useRef(null);
  latest.current = load;
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
  useEffect(() => {
    refresh();
    return () => running.current?.abort();
  }, [key]);
  return { ...shown, refresh, set: (value) => setShown({ value, problem: null }) };
}
