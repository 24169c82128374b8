/** Colours as they are computed now, for what draws on a canvas, which knows no `light-dark()`. */
import { useEffect, useState } from "../../app/html.js";

function computed(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** A function from the name of a colour to its value; another one whenever the look has changed. */
export function useLook() {
  const [look, setLook] = useState(() => ({ colour: computed }));
  useEffect(() => {
    const change = () => setLook({ colour: computed });
    const media = matchMedia("(prefers-color-scheme: dark)");
    const watch = new MutationObserver(change);
    media.addEventListener("change", change);
    watch.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      media.removeEventListener("change", change);
      watch.disconnect();
    };
  }, []);
  return look;
}
