/** A collection's page, with its files, ways to add more, and its deletion. */
import { allows, get, write } from "../../../api/client.js";
import { html, useEffect, useState } from "../../../html.js";
import { countText, sizeText } from "../../../model/format.js";
import { go } from "../../router.js";
import { FileTable, useFiles } from "../files/file_table.js";
import { UploadZone } from "../files/upload_zone.js";
import { Confirm, FormDialog, TextField } from "../forms.js";
import { useLoaded } from "../hooks.js";
import { PageHead, Problem, StatusChip } from "../views.js";
import { ContentPicker } from "./base_form.js";

const LIMIT = 50;
const LOOK_AGAIN_MS = 2_000;

export function CollectionPage({ id }) {
  const path = `/collections/${id}/`;
  const { value: collection, problem, refresh, set } = useLoaded((signal) => get(path, {}, { signal }), id);
  const files = useFiles({ collection_id: id }, LIMIT);
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const both = () => Promise.all([files.refresh(), refresh()]);
  useEffect(() => {
    if (collection?.status !== "running" && collection?.status !== "pending") return undefined;
    const timer = setTimeout(refresh, LOOK_AGAIN_MS);
    return () => clearTimeout(timer);
  }, [collection]);
  const takeOut = async (ids) => {
    for (const file of ids) await write("DELETE", `${path}files/${file}/`);
    await refresh();
  };
  const may = allows("files:write");
  return html`
    <div class="page">
      <${PageHead} title=${collection?.name ?? "Collection"} back=${{ path: "knowledge/", label: "All knowledge" }} aside=${collection && html`<${StatusChip} status=${collection.status} />`}>
        ${collection && may && html`
          <button class="button" onClick=${() => setOpen("add")}>Add existing files</button>
          <button class="button" onClick=${() => setOpen("edit")}>Change</button>
          <button class="button danger" onClick=${() => setOpen("delete")}>Delete</button>`}
      <//>
      <${Problem} of=${problem} />
      ${collection && html`
        ${collection.description && html`<p class="lead">${collection.description}</p>`}
        <p class="muted">${countText(collection.data_source_count, "file")}, ${sizeText(collection.total_size)}${collection.status === "running" ? `, ${collection.progress} % read` : ""}</p>
        ${may && html`<${UploadZone} collectionId=${id} onStored=${both} />`}
        <${FileTable} files=${files} empty="No files yet." onChanged=${refresh} onRemove=${takeOut} />`}
      ${open === "add" && html`<${AddFiles} path=${`${path}files/`} onClose=${close} onAdded=${async () => (close(), await both())} />`}
      ${open === "edit" && html`<${CollectionForm} collection=${collection} onClose=${close} onSaved=${(saved) => (set(saved), close())} />`}
      ${open === "delete" && html`
        <${Confirm} title=${`Delete ${collection.name}?`} action="Delete" onClose=${close} onConfirm=${async () => (await write("DELETE", path), go("knowledge/"))}>
          <p>The files remain. Knowledge bases that use the collection drop the files with the next ingestion.</p>
        <//>`}
    </div>`;
}

/** Edits the name and description of a collection. */
export function CollectionForm({ collection, onSaved, onClose }) {
  const [name, setName] = useState(collection?.name ?? "");
  const [description, setDescription] = useState(collection?.description ?? "");
  const submit = async () => {
    const body = { name: name.trim(), description };
    await onSaved(await write(collection ? "PATCH" : "POST", collection ? `/collections/${collection.id}/` : "/collections/", body));
  };
  return html`
    <${FormDialog} title=${collection ? "Edit collection" : "New collection"} action=${collection ? "Save" : "Create"} shown=${["name", "description"]} onSubmit=${submit} onClose=${onClose}>
      ${(problem) => html`
        <${TextField} label="Name" name="name" required maxlength="200" problem=${problem} value=${name} onValue=${setName} />
        <${TextField} label="Description" name="description" maxlength="10000" problem=${problem} value=${description} onValue=${setDescription} />`}
    <//>`;
}

/** Adds stored files to a collection. */
function AddFiles({ path, onAdded, onClose }) {
  const [files, setFiles] = useState([]);
  const submit = async () => {
    const { results } = await write("POST", path, { file_ids: files });
    const refused = results.find(({ error }) => error);
    if (refused) throw new Error(refused.error.message);
    await onAdded();
  };
  return html`
    <${FormDialog} title="Add files" action="Add" disabled=${files.length === 0} onSubmit=${submit} onClose=${onClose}>
      ${(problem) => html`
        <${ContentPicker} collections=${null} files=${files} onFiles=${setFiles} />`}
    <//>`;
}
