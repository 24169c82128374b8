/** A secret that the service shows this once. */
import { html } from "../../html.js";
import { CopyButton } from "./copy_button.js";
import { Dialog } from "./dialog.js";

export function SecretOnce({ title, secret, children, onDone }) {
  return html`
    <${Dialog} title=${title} onClose=${onDone} sticky>
      ${children}
      <p class="secret-once"><code tabindex="0">${secret}</code><${CopyButton} text=${secret} /></p>
      <p class="muted">It is shown this once and cannot be read again.</p>
      <div class="dialog-actions"><button class="button primary" autofocus onClick=${onDone}>Done</button></div>
    <//>`;
}
