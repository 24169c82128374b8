/** Copies a text; where the page came without TLS there is no clipboard, and the text is selected instead. */
import { html, useState } from "../app/html.js";
import { Icon } from "./icon.js";

export function CopyButton({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(typeof text === "function" ? text() : text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  if (!navigator.clipboard) return null;
  return html`<button class="button small" onClick=${copy}><${Icon} name=${done ? "check" : "copy"} />${done ? "Copied" : label}</button>`;
}
