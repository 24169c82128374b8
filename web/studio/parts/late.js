/** A component whose module comes when it is shown first, after those of the page. */
import { html, useEffect, useState } from "../../html.js";

/** `load` resolves to the component; until then, and where it cannot be fetched, nothing is shown. */
export function late(load) {
  let loaded = null;
  return function Late(props) {
    const [, repaint] = useState(0);
    useEffect(() => {
      if (loaded) return undefined;
      let isShown = true;
      load().then((component) => ((loaded = component), isShown && repaint(1)), (problem) => console.error(problem));
      return () => (isShown = false);
    }, []);
    return loaded && html`<${loaded} ...${props} />`;
  };
}
