/** What the service answers to a read, asked again after a pause for as long as the page is looked at. */
import { useEffect, useState } from "../../app/html.js";

const ANSWER_MS = 30_000;

/** `{value, problem}`; after a failure the last value stays, since it is still the newest that is known. */
export function usePolled(load, pauseMs) {
  const [shown, setShown] = useState({ value: null, problem: null });
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        const value = document.hidden ? null : await load(AbortSignal.any([stop.signal, AbortSignal.timeout(ANSWER_MS)]));
        if (value && !stop.signal.aborted) setShown({ value, problem: null });
      } catch (problem) {
        if (!stop.signal.aborted) setShown((now) => ({ ...now, problem }));
      }
      if (!stop.signal.aborted) timer = setTimeout(look, pauseMs);
    };
    look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, []);
  return shown;
}
