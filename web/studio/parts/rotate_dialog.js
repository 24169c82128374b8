/** Replaces a secret by a new one; the old one holds for a while. */
import { write } from "../../api/client.js";
import { html, useState } from "../../html.js";
import { Dialog } from "./dialog.js";
import { SelectField } from "./field.js";
import { Problem } from "./problem.js";
import { useAction } from "./use_action.js";

const GRACES = [["0", "not at all"], ["60", "for a minute"], ["3600", "for an hour"], ["86400", "for a day"], ["604800", "for a week"]];

/** `least`: the shortest grace in seconds. */
export function RotateDialog({ title, path, least = 0, onRotated, onClose, children }) {
  const [grace, setGrace] = useState("86400");
  const { busy, problem, run } = useAction(async () => onRotated(await write("POST", path, { grace_seconds: Number(grace) })));
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      ${children}
      <${SelectField} label="The old one goes on working" name="grace_seconds" problem=${problem} value=${grace} onValue=${setGrace}
        options=${GRACES.filter(([seconds]) => Number(seconds) >= least)} />
      <${Problem} of=${problem} shown=${["grace_seconds"]} />
      <div class="dialog-actions">
        <button class="button" onClick=${onClose}>Cancel</button>
        <button class="button primary" disabled=${busy} onClick=${() => run()}>Rotate</button>
      </div>
    <//>`;
}
