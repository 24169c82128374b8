/** Looking again after a pause, while the tab is in sight. */
import { useEffect } from "../../html.js";

/** Calls `look` a pause after `answered`, a list of what it changes; never while `pauseMs` is null. */
export function useLookAgain(look, pauseMs, answered) {
  useEffect(() => {
    if (pauseMs === null) return undefined;
    let timer = 0;
    const wait = () => (timer = setTimeout(() => (document.hidden ? wait() : look()), pauseMs));
    wait();
    return () => clearTimeout(timer);
  }, [...answered, pauseMs]);
}
