/** Knowledge: files, their collections, and the knowledge bases that make them searchable. */
import { allows, get } from "../../api/client.js";
import { html, useEffect, useState } from "../../html.js";
import { agoText, countText, sizeText } from "../../model/format.js";
import { stageText } from "../../model/knowledge.js";
import { FileTable, useFiles } from "../parts/files/file_table.js";
import { UploadZone } from "../parts/files/upload_zone.js";
import { useLoaded } from "../parts/hooks.js";
import { BaseForm } from "../parts/knowledge/base_form.js";
import { BasePage } from "../parts/knowledge/base_page.js";
import { CollectionForm, CollectionPage } from "../parts/knowledge/collections.js";
import { Icon, PageHead, Paging, Problem, StatusChip } from "../parts/views.js";
import { go, hrefOf } from "../router.js";

const FILES = 20;
const CARDS = 12;
const LOOK_AGAIN_MS = 3_000;

// The files that are selected when the form opens. They aren't part of the address.
let picked = [];

export default function Knowledge({ segments, query }) {
  const [first, second] = segments;
  if (first === "new") return html`<${BaseForm} key="new" fileIds=${picked} />`;
  if (first === "collections" && second) return html`<${CollectionPage} key=${second} id=${second} />`;
  if (first && second === "settings") return html`<${BaseForm} key=${first} id=${first} />`;
  if (first) return html`<${BasePage} key=${first} id=${first} query=${query} />`;
  return html`<${Home} />`;
}

function Home() {
  const files = useFiles({}, FILES);
  const begin = () => {
    picked = [...files.chosen];
    go("knowledge/new/");
  };
  return html`
    <div class="page">
      <${PageHead} title="Knowledge">
        ${allows("knowledge:write") && html`<button class="button primary" onClick=${begin}><${Icon} name="plus" />New knowledge base</button>`}
      <//>
      <${Bases} />
      ${allows("files:read") && html`
        <${Collections} />
        <div class="section-head"><h2>Files</h2></div>
        ${allows("files:write") && html`<${UploadZone} onStored=${files.refresh} />`}
        <${FileTable} files=${files} empty="No files yet." />`}
    </div>`;
}

function Bases() {
  const [offset, setOffset] = useState(0);
  const { value: page, problem, refresh } = useLoaded((signal) => get("/knowledge-bases/", { limit: CARDS, offset }, { signal }), offset, { changes: "knowledge_base" });
  const runs = page?.knowledge_bases.some(({ status }) => status === "running" || status === "pending");
  useEffect(() => {
    if (!runs) return undefined;
    const timer = setTimeout(refresh, LOOK_AGAIN_MS);
    return () => clearTimeout(timer);
  }, [page]);
  return html`
    <${Problem} of=${problem} />
    ${page?.knowledge_bases.length === 0 && html`<p class="empty">No knowledge bases yet. Upload files, then create one from them for agents and programs to search.</p>`}
    <ul class="card-list tiles">
      ${page?.knowledge_bases.map((each) => html`
        <li key=${each.id} class="card">
          <div class="card-head"><a href=${hrefOf(`knowledge/${each.id}/`)}>${each.name}</a><${StatusChip} status=${each.status} /></div>
          ${each.description && html`<p class="clamped">${each.description}</p>`}
          <p class="muted">${stageText(each)} Changed ${agoText(each.updated_at)}.</p>
        </li>`)}
    </ul>
    ${page && html`<${Paging} offset=${offset} shown=${page.knowledge_bases.length} total=${page.total} limit=${CARDS} onOffset=${setOffset} />`}`;
}

function Collections() {
  const [offset, setOffset] = useState(0);
  const { value: page, problem } = useLoaded((signal) => get("/collections/", { limit: CARDS, offset }, { signal }), offset, { changes: "collection" });
  const [making, setMaking] = useState(false);
  return html`
    <div class="section-head">
      <h2>Collections</h2>
      ${allows("files:write") && html`<button class="button small" onClick=${() => setMaking(true)}><${Icon} name="plus" />New collection</button>`}
    </div>
    <${Problem} of=${problem} />
    ${page?.collections.length === 0 && html`<p class="muted">No collections yet. A collection groups files. Knowledge bases that use a collection follow its changes.</p>`}
    <ul class="card-list tiles">
      ${page?.collections.map((each) => html`
        <li key=${each.id} class="card">
          <div class="card-head"><a href=${hrefOf(`knowledge/collections/${each.id}/`)}>${each.name}</a></div>
          <p class="muted">${countText(each.data_source_count, "file")}, ${sizeText(each.total_size)}</p>
        </li>`)}
    </ul>
    ${page && html`<${Paging} offset=${offset} shown=${page.collections.length} total=${page.total} limit=${CARDS} onOffset=${setOffset} />`}
    ${making && html`<${CollectionForm} onClose=${() => setMaking(false)} onSaved=${({ id }) => go(`knowledge/collections/${id}/`)} />`}`;
}
