/** A table of files with their tags and status. Actions apply to all selected files. */
import { allows, get, write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { agoText, sizeText } from "../../../model/format.js";
import { hrefOf } from "../../router.js";
import { Confirm } from "../forms.js";
import { useAction, useLoaded } from "../hooks.js";
import { DataTable, Paging, Problem, StatusChip } from "../views.js";
import { TagsDialog } from "./file_page.js";

/** The table. `files` comes from `useFiles`. If given, `onRemove(ids)` removes files from a collection. */
export function FileTable({ files, empty, onChanged = () => {}, onRemove }) {
  const { page, problem, chosen, choose, setChosen, refresh } = files;
  const [open, setOpen] = useState(null);
  const change = useAction(async (operation, parameters) => {
    const answer = await write("POST", "/files/bulk/", { operation, file_ids: shown.filter(({ id }) => chosen.has(id)).map(({ id }) => id), parameters });
    await refresh();
    onChanged();
    const refused = answer.results.find(({ error }) => error);
    if (refused) throw new Error(`Couldn't change ${answer.failed} of the files: ${refused.error.message}`);
  });
  if (!page) return problem ? html`<${Problem} of=${problem} />` : html`<p class="empty">Loading files…</p>`;
  const shown = page.files;
  const picked = shown.filter(({ id }) => chosen.has(id));
  const close = () => setOpen(null);
  const removeChosen = async () => {
    await write("POST", "/files/bulk/", { operation: "delete", file_ids: open.files.map(({ id }) => id) });
    setChosen(new Set());
    await refresh();
    onChanged();
  };
  return html`
    <${Problem} of=${change.problem ?? problem} />
    <${Bulk} picked=${picked} shown=${shown} change=${change} onAll=${(on) => setChosen(new Set(on ? shown.map(({ id }) => id) : []))}
      onTags=${() => setOpen({ kind: "tags", files: picked })} onDelete=${() => setOpen({ kind: "delete", files: picked })}
      onRemove=${onRemove && (async () => (await onRemove(picked.map(({ id }) => id)), setChosen(new Set()), await refresh()))} />
    <${DataTable} label="Files" items=${shown} keyOf=${({ id }) => id} columns=${columnsOf(chosen, choose)} rowClass=${({ status }) => (status === "inactive" ? "off" : "")} empty=${empty} />
    <${Paging} offset=${files.offset} shown=${shown.length} total=${page.total} limit=${files.limit} onOffset=${files.setOffset} />
    ${open?.kind === "tags" && html`<${TagsDialog} files=${open.files} onClose=${close} onSaved=${async () => (close(), await refresh(), onChanged())} />`}
    ${open?.kind === "delete" && html`
      <${Confirm} title=${`Delete ${open.files.length === 1 ? open.files[0].name : `${open.files.length} files`}?`} action="Delete" onClose=${close} onConfirm=${removeChosen}>
        <p>The files are removed from their collections and from search. This can't be undone.</p>
      <//>`}`;
}

function Bulk({ picked, shown, change, onAll, onTags, onDelete, onRemove }) {
  if (!allows("files:write") || shown.length === 0) return null;
  const none = picked.length === 0;
  return html`
    <p class="form-actions bulk" role="group" aria-label="Actions on the selection">
      <label class="check"><input type="checkbox" checked=${picked.length === shown.length} indeterminate=${!none && picked.length < shown.length} onChange=${(event) => onAll(event.target.checked)} />All on this page</label>
      <button class="button small" disabled=${none} onClick=${onTags}>Tags…</button>
      <button class="button small" disabled=${none || change.busy} onClick=${() => change.run("change_status", { status: "active" })}>Activate</button>
      <button class="button small" disabled=${none || change.busy} onClick=${() => change.run("change_status", { status: "inactive" })}>Deactivate</button>
      ${onRemove && html`<button class="button small" disabled=${none} onClick=${onRemove}>Remove</button>`}
      <button class="button small danger" disabled=${none} onClick=${onDelete}>Delete…</button>
      <span class="muted">${none ? "" : `${picked.length} selected`}</span>
    </p>`;
}

function columnsOf(chosen, choose) {
  const box = {
    label: "",
    className: "check",
    cell: ({ id, name }) => html`<input type="checkbox" aria-label=${name} checked=${chosen.has(id)} onChange=${(event) => choose(id, event.target.checked)} />`,
  };
  return [
    ...(allows("files:write") ? [box] : []),
    { label: "File", className: "plain", cell: ({ id, name }) => html`<a href=${hrefOf(`files/${id}/`)}>${name}</a>` },
    { label: "Size", className: "nowrap", cell: ({ size }) => sizeText(size) },
    { label: "Tags", cell: ({ tags }) => html`<span class="tags">${tags.map((tag) => html`<span key=${tag} class="chip">${tag}</span>`)}</span>` },
    { label: "Status", cell: ({ status }) => html`<${StatusChip} status=${status} />` },
    { label: "Uploaded", className: "nowrap", cell: ({ created_at: at }) => agoText(at) },
  ];
}

/** Reads files. `query` contains filters of `GET /files/`. */
export function useFiles(query, limit) {
  const [offset, setOffset] = useState(0);
  const key = JSON.stringify(query);
  const [filtered, setFiltered] = useState(key);
  const begin = filtered === key ? offset : 0;
  const loaded = useLoaded((signal) => get("/files/", { ...query, limit, offset: begin }, { signal }), `${key}/${begin}`, { changes: "file" });
  const [chosen, setChosen] = useState(new Set());
  const choose = (id, on) => setChosen((now) => (on ? new Set(now).add(id) : new Set([...now].filter((each) => each !== id))));
  const go = (next) => (setFiltered(key), setOffset(next));
  return { ...loaded, page: loaded.value, query, limit, offset: begin, setOffset: go, chosen, choose, setChosen };
}

const LIMIT = 200;

/** Returns all of the company's collections, or null while they load. */
export function useCollections() {
  const { value } = useLoaded((signal) => (allows("files:read") ? get("/collections/", { limit: LIMIT }, { signal }) : { collections: [] }), "", { changes: "collection" });
  return value?.collections ?? null;
}
