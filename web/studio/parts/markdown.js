/** Markdown in a component. */
import { Blocks } from "../../chat/markdown.js";
import { html, useLayoutEffect, useMemo, useRef } from "../../html.js";

/** `growing`: more of the text is on its way. */
export function Markdown({ text, growing = false }) {
  const box = useRef();
  const blocks = useMemo(() => new Blocks(), []);
  useLayoutEffect(() => blocks.show(box.current, text), [text]);
  useLayoutEffect(() => () => blocks.end(), []);
  return html`<div class=${growing ? "markdown growing" : "markdown"} ref=${box}></div>`;
}
