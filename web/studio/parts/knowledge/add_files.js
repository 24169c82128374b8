/** Adds files that are stored already to a collection. */
import { write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { Dialog } from "../dialog.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";
import { ContentPicker } from "./content_picker.js";

export function AddFiles({ path, onAdded, onClose }) {
  const [files, setFiles] = useState([]);
  const { busy, problem, run } = useAction(async () => {
    const { results } = await write("POST", path, { file_ids: files });
    const refused = results.find(({ error }) => error);
    if (refused) throw new Error(refused.error.message);
    await onAdded();
  });
  return html`
    <${Dialog} title="Add files" onClose=${onClose}>
      <form class="form" onSubmit=${(event) => (event.preventDefault(), run())}>
        <${ContentPicker} collections=${null} files=${files} onFiles=${setFiles} />
        <${Problem} of=${problem} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy || files.length === 0}>Add</button>
        </div>
      </form>
    <//>`;
}
