/** Whether an element has come near to what is in sight of the box that it is scrolled in. */
import { useEffect, useRef, useState } from "../../html.js";

/** `[ref, isNear]`; what has been near stays so, and what `begins` so is. */
export function useNear(container, begins) {
  const element = useRef();
  const [hasBeen, setHasBeen] = useState(begins);
  useEffect(() => {
    if (hasBeen) return undefined;
    const look = (entries) => entries.some(({ isIntersecting }) => isIntersecting) && setHasBeen(true);
    const watch = new IntersectionObserver(look, { root: element.current.closest(container), rootMargin: "100% 0px" });
    watch.observe(element.current);
    return () => watch.disconnect();
  }, [hasBeen]);
  return [element, hasBeen];
}
