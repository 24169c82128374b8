/** Copies a text. Where the page came without TLS there is no clipboard, and no button. */
import { html, useState } from "../../html.js";
import { Icon } from "./icon.js";

export function CopyButton({ text, label = "Copy" }) {
  const [said, setSaid] = useState("");
  if (!navigator.clipboard) return null;
  const copy = async () => {
    const given = typeof text === "function" ? text() : text;
    setSaid(await navigator.clipboard.writeText(given).then(() => "Copied", () => "Not copied"));
    setTimeout(() => setSaid(""), 1500);
  };
  return html`<button class="button small" onClick=${copy}><${Icon} name=${said === "Copied" ? "check" : "copy"} />${said || label}</button>`;
}
