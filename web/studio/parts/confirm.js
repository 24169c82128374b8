/** Asks before something is done that cannot be undone. */
import { html } from "../../html.js";
import { Dialog } from "./dialog.js";
import { Problem } from "./problem.js";
import { useAction } from "./use_action.js";

/** `onConfirm` does it; the dialog closes when that has succeeded, and says why it has not. */
export function Confirm({ title, action, onConfirm, onClose, children }) {
  const { busy, problem, run } = useAction(async () => {
    await onConfirm();
    onClose();
  });
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      ${children}
      <${Problem} of=${problem} />
      <div class="dialog-actions">
        <button class="button" autofocus onClick=${onClose}>Cancel</button>
        <button class="button danger filled" disabled=${busy} onClick=${run}>${action}</button>
      </div>
    <//>`;
}
