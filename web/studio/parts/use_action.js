/** Something that a person does, and how it goes: one at a time, with the reason where it is refused. */
import { useRef, useState } from "../../html.js";

/** `{busy, problem, run, reset}`; `run` resolves to what the action does, or to undefined when it failed. */
export function useAction(action) {
  const [state, setState] = useState({ busy: false, problem: null });
  const busy = useRef(false);
  const run = async (...given) => {
    if (busy.current) return undefined;
    busy.current = true;
    setState({ busy: true, problem: null });
    try {
      const result = await action(...given);
      setState({ busy: false, problem: null });
      return result;
    } catch (problem) {
      setState({ busy: false, problem });
      return undefined;
    } finally {
      busy.current = false;
    }
  };
  return { ...state, run, reset: () => setState({ busy: false, problem: null }) };
}
