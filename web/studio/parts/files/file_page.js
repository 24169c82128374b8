/** A file's page, with its content and tags. Files can be excluded from searches. */
import { allows, download, get, write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { momentText, sizeText } from "../../../model/format.js";
import { go, hrefOf } from "../../router.js";
import { Confirm, FormDialog, TextField } from "../forms.js";
import { useAction, useLoaded } from "../hooks.js";
import { Icon, PageHead, Problem, StatusChip } from "../views.js";
import { FileContent } from "./document.js";
import { useCollections } from "./file_table.js";

/** The page. `passage` is highlighted in the file's text. */
export function FilePage({ id, passage }) {
  const path = `/files/${id}/`;
  const { value: file, problem, refresh } = useLoaded((signal) => get(path, {}, { signal }), id);
  const [open, setOpen] = useState(null);
  const save = useAction(() => download(`${path}download/`, file.name));
  const status = useAction(async (next) => {
    await write("POST", "/files/bulk/", { operation: "change_status", file_ids: [id], parameters: { status: next } });
    await refresh();
  });
  const other = file?.status === "active" ? "inactive" : "active";
  return html`
    <div class="page">
      <${PageHead} title=${file?.name ?? "File"} back=${{ path: "files/", label: "All files" }} aside=${file && html`<${StatusChip} status=${file.status} />`}>
        ${file && html`<button class="button" disabled=${save.busy} onClick=${() => save.run()}><${Icon} name="download" />Download</button>`}
        ${file && allows("files:write") && html`
          <button class="button" onClick=${() => setOpen("tags")}>Tags…</button>
          <button class="button" disabled=${status.busy} onClick=${() => status.run(other)}>${other === "active" ? "Activate" : "Deactivate"}</button>
          <button class="button danger" onClick=${() => setOpen("delete")}>Delete</button>`}
      <//>
      <${Problem} of=${save.problem ?? status.problem ?? problem} />
      ${file && html`<${Facts} file=${file} /><div class="file-content card"><${FileContent} file=${file} passage=${passage} /></div>`}
      ${open === "tags" && html`<${TagsDialog} files=${[file]} onClose=${() => setOpen(null)} onSaved=${async () => (setOpen(null), await refresh())} />`}
      ${open === "delete" && html`
        <${Confirm} title=${`Delete ${file.name}?`} action="Delete" onClose=${() => setOpen(null)} onConfirm=${async () => (await write("DELETE", path), go("files/"))}>
          <p>The file is removed from its collections and from search. This can't be undone.</p>
        <//>`}
    </div>`;
}

function Facts({ file }) {
  const names = new Map(useCollections()?.map(({ id, name }) => [id, name]) ?? []);
  return html`
    <dl class="facts card">
      <dt>Type</dt><dd>${file.content_type}, ${sizeText(file.size)}</dd>
      <dt>Tags</dt><dd>${file.tags.length ? html`<span class="tags">${file.tags.map((tag) => html`<span key=${tag} class="chip">${tag}</span>`)}</span>` : "none"}</dd>
      <dt>Collections</dt><dd>${file.collection_ids.length ? file.collection_ids.map((id, at) => html`${at > 0 && ", "}<a key=${id} href=${hrefOf(`knowledge/collections/${id}/`)}>${names.get(id) ?? "collection"}</a>`) : "none"}</dd>
      <dt>Uploaded</dt><dd>${momentText(file.created_at)}</dd>
      <dt>SHA-256</dt><dd><code>${file.sha256}</code></dd>
    </dl>`;
}

/** Edits the tags of files. */
export function TagsDialog({ files, onSaved, onClose }) {
  const same = files.every(({ tags }) => tags.join() === files[0].tags.join());
  const [text, setText] = useState(same ? files[0].tags.join(", ") : "");
  const submit = async () => {
    const tags = [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))];
    await write("POST", "/files/bulk/", { operation: "update_tags", file_ids: files.map(({ id }) => id), parameters: { tags } });
    await onSaved();
  };
  return html`
    <${FormDialog} title=${files.length === 1 ? `Tags of ${files[0].name}` : `Tags of ${files.length} files`} shown=${["parameters"]} onSubmit=${submit} onClose=${onClose}>
      ${(problem) => html`
        <${TextField} label="Tags" name="parameters" hint=${same ? "Separated by commas." : "Separated by commas. The files have different tags. These tags replace them all."} problem=${problem} value=${text} onValue=${setText} />`}
    <//>`;
}
