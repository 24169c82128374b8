/** Whether something has stood at its place for a while: what comes under a resting pointer was not meant by its click. */
import { useLayoutEffect, useRef, useState } from "../../html.js";

export const STILL_MS = 2_000;
const LOOK_MS = 100;
/** Of a movement in the page that goes on after the wheel or a key. */
const SCROLL_MS = 500;
const TOLERANCE_PX = 4;

let scrolledAt = -Infinity;
for (const type of ["wheel", "touchmove", "keydown"]) {
  addEventListener(type, () => (scrolledAt = Date.now()), { capture: true, passive: true });
}

/**
 * `[element, isStill, check]`: the ref of what is watched, and whether it neither appeared nor moved in the page within
 * 2 s, unless somebody scrolled it there. `check()` looks at this moment.
 */
export function useStill() {
  const element = useRef();
  const seen = useRef({ left: NaN, top: NaN, at: 0 });
  const [isStill, setStill] = useState(false);
  const check = () => {
    if (!element.current) return false;
    const box = element.current.getBoundingClientRect();
    // In the page: nobody but its reader scrolls that.
    const [left, top] = [box.left + scrollX, box.top + scrollY];
    const { current: before } = seen;
    const now = Date.now();
    if (!(Math.hypot(left - before.left, top - before.top) <= TOLERANCE_PX)) {
      const isScrolled = before.at > 0 && now - scrolledAt < SCROLL_MS;
      seen.current = { left, top, at: isScrolled ? before.at : now };
    }
    const still = now - seen.current.at >= STILL_MS;
    setStill(still);
    return still;
  };
  useLayoutEffect(() => {
    let timer = 0;
    const look = () => {
      check();
      timer = setTimeout(look, LOOK_MS);
    };
    look();
    return () => clearTimeout(timer);
  }, []);
  return [element, isStill, check];
}
