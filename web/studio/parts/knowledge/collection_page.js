/** A collection: its files, more of them, and what becomes of it. */
import { get, write } from "../../../api/client.js";
import { allows } from "../../../api/session.js";
import { html, useEffect, useState } from "../../../html.js";
import { go } from "../../router.js";
import { countText, sizeText } from "../../../model/format.js";
import { Confirm } from "../confirm.js";
import { FileTable } from "../files/file_table.js";
import { UploadZone } from "../files/upload_zone.js";
import { useFiles } from "../files/use_files.js";
import { PageHead } from "../page_head.js";
import { Problem } from "../problem.js";
import { StatusChip } from "../chips.js";
import { useLoaded } from "../use_loaded.js";
import { AddFiles } from "./add_files.js";
import { CollectionForm } from "./collection_form.js";

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
          <button class="button" onClick=${() => setOpen("add")}>Add stored ones</button>
          <button class="button" onClick=${() => setOpen("edit")}>Change</button>
          <button class="button danger" onClick=${() => setOpen("delete")}>Delete</button>`}
      <//>
      <${Problem} of=${problem} />
      ${collection && html`
        ${collection.description && html`<p class="lead">${collection.description}</p>`}
        <p class="muted">${countText(collection.data_source_count, "file")}, ${sizeText(collection.total_size)}${collection.status === "running" ? `, ${collection.progress} % read` : ""}</p>
        ${may && html`<${UploadZone} collectionId=${id} onStored=${both} />`}
        <${FileTable} files=${files} empty="No file in it yet." onChanged=${refresh} onRemove=${takeOut} />`}
      ${open === "add" && html`<${AddFiles} path=${`${path}files/`} onClose=${close} onAdded=${async () => (close(), await both())} />`}
      ${open === "edit" && html`<${CollectionForm} collection=${collection} onClose=${close} onSaved=${(saved) => (set(saved), close())} />`}
      ${open === "delete" && html`
        <${Confirm} title=${`Delete ${collection.name}?`} action="Delete" onClose=${close} onConfirm=${async () => (await write("DELETE", path), go("knowledge/"))}>
          <p>Its files stay. Knowledge bases that have it leave them out at their next ingestion.</p>
        <//>`}
    </div>`;
}
