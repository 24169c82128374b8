/** Gives files their tags. */
import { write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { Dialog } from "../dialog.js";
import { TextField } from "../field.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";

export function TagsDialog({ files, onSaved, onClose }) {
  const same = files.every(({ tags }) => tags.join() === files[0].tags.join());
  const [text, setText] = useState(same ? files[0].tags.join(", ") : "");
  const { busy, problem, run } = useAction(async () => {
    const tags = [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))];
    await write("POST", "/files/bulk/", { operation: "update_tags", file_ids: files.map(({ id }) => id), parameters: { tags } });
    await onSaved();
  });
  const submit = (event) => (event.preventDefault(), run());
  return html`
    <${Dialog} title=${files.length === 1 ? `Tags of ${files[0].name}` : `Tags of ${files.length} files`} onClose=${onClose}>
      <form class="form" onSubmit=${submit}>
        <${TextField} label="Tags" name="parameters" hint=${same ? "Separated by commas." : "Separated by commas. They replace the different ones that these files have."} problem=${problem} value=${text} onValue=${setText} />
        <${Problem} of=${problem} shown=${["parameters"]} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy}>Save</button>
        </div>
      </form>
    <//>`;
}
