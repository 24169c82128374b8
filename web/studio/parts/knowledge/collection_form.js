/** The name and description of a collection. */
import { write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { Dialog } from "../dialog.js";
import { TextField } from "../field.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";

export function CollectionForm({ collection, onSaved, onClose }) {
  const [name, setName] = useState(collection?.name ?? "");
  const [description, setDescription] = useState(collection?.description ?? "");
  const { busy, problem, run } = useAction(async () => {
    const body = { name: name.trim(), description };
    await onSaved(await write(collection ? "PATCH" : "POST", collection ? `/collections/${collection.id}/` : "/collections/", body));
  });
  const submit = (event) => (event.preventDefault(), run());
  return html`
    <${Dialog} title=${collection ? "Change the collection" : "New collection"} onClose=${onClose}>
      <form class="form" onSubmit=${submit}>
        <${TextField} label="Name" name="name" required maxlength="200" problem=${problem} value=${name} onValue=${setName} />
        <${TextField} label="Description" name="description" maxlength="10000" problem=${problem} value=${description} onValue=${setDescription} />
        <${Problem} of=${problem} shown=${["name", "description"]} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy}>${collection ? "Save" : "Create"}</button>
        </div>
      </form>
    <//>`;
}
