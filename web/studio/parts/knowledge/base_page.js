/** A knowledge base: how far it is, what could not be taken up, and search in it. */
import { get, write } from "../../../api/client.js";
import { allows } from "../../../api/session.js";
import { html, useState } from "../../../html.js";
import { go, hrefOf } from "../../router.js";
import { agoText } from "../../../model/format.js";
import { Confirm } from "../confirm.js";
import { DataTable } from "../data_table.js";
import { Icon } from "../icon.js";
import { PageHead } from "../page_head.js";
import { Paging } from "../paging.js";
import { Problem } from "../problem.js";
import { StatusChip } from "../chips.js";
import { useAction } from "../use_action.js";
import { useLoaded } from "../use_loaded.js";
import { Ingestion, IngestionErrors } from "./ingestion.js";
import { Search } from "./search.js";
import { useKnowledgeBase } from "./use_knowledge_base.js";

export function BasePage({ id, query }) {
  const { knowledgeBase, problem, set } = useKnowledgeBase(id);
  const path = `/knowledge-bases/${id}/`;
  const ingest = useAction(async () => set(await write("POST", `${path}ingest/`)));
  const [deleting, setDeleting] = useState(false);
  const may = allows("knowledge:write");
  return html`
    <div class="page">
      <${PageHead} title=${knowledgeBase?.name ?? "Knowledge base"} back=${{ path: "knowledge/", label: "All knowledge" }}
        aside=${knowledgeBase && html`<${StatusChip} status=${knowledgeBase.status} />`}>
        ${knowledgeBase && may && html`
          ${knowledgeBase.failed_datasources.length === 0 && html`<button class="button" disabled=${ingest.busy} onClick=${() => ingest.run()}><${Icon} name="again" />Ingest again</button>`}
          <a class="button" href=${hrefOf(`knowledge/${id}/settings/`)}>Change</a>
          <button class="button danger" onClick=${() => setDeleting(true)}>Delete</button>`}
      <//>
      <${Problem} of=${ingest.problem ?? problem} />
      ${knowledgeBase && html`
        ${knowledgeBase.description && html`<p class="lead">${knowledgeBase.description}</p>`}
        <${Ingestion} knowledgeBase=${knowledgeBase} />
        <${IngestionErrors} knowledgeBase=${knowledgeBase} busy=${ingest.busy} onAgain=${may && (() => ingest.run())} />
        <${Search} id=${id} path=${`knowledge/${id}/`} query=${query} />
        <${Settings} knowledgeBase=${knowledgeBase} />
        <${Datasources} id=${id} state=${`${knowledgeBase.status}/${knowledgeBase.updated_at}`} />`}
      ${deleting && html`
        <${Confirm} title=${`Delete ${knowledgeBase.name}?`} action="Delete" onClose=${() => setDeleting(false)}
          onConfirm=${async () => (await write("DELETE", path), go("knowledge/"))}>
          <p>Its index goes; collections and files stay. Agents that have it go on without it.</p>
        <//>`}
    </div>`;
}

function Settings({ knowledgeBase }) {
  const { processing_engine: engine, chunking_strategy: chunking, embedding_config: embedding, id, created_by_name: maker, created_at: at } = knowledgeBase;
  return html`
    <details class="card base-facts">
      <summary>Settings</summary>
      <dl class="facts">
        <dt>Engine</dt><dd>${engine}</dd>
        <dt>Chunks</dt><dd>${chunking.strategy}, ${chunking.chunk_size} ${chunking.split_by}s with an overlap of ${chunking.chunk_overlap}</dd>
        <dt>Embedding</dt><dd>${[embedding.provider, embedding.model, embedding.dimensions && `${embedding.dimensions} dimensions`].filter(Boolean).join(", ")}</dd>
        <dt>Made</dt><dd>${agoText(at)} by ${maker}</dd>
        <dt>Id</dt><dd><code>${id}</code></dd>
      </dl>
    </details>`;
}

const LIMIT = 50;
// The word of the whole is said once, at the top.
const STATES = { completed: "taken up", pending: "waits", running: "under way", failed: "could not be taken up" };

const COLUMNS = [
  { label: "File", className: "plain", cell: ({ id, name }) => html`<a href=${hrefOf(`files/${id}/`)}>${name}</a>` },
  { label: "State", cell: ({ ingestion_status: state }) => STATES[state] ?? state },
];

function Datasources({ id, state }) {
  const [offset, setOffset] = useState(0);
  const { value: page, problem } = useLoaded((signal) => get(`/knowledge-bases/${id}/datasources/`, { limit: LIMIT, offset }, { signal }), `${offset}/${state}`);
  return html`
    <details class="card base-facts">
      <summary>Files${page ? ` (${page.total})` : ""}</summary>
      <${Problem} of=${problem} />
      ${page && html`
        <${DataTable} label="Files of it" items=${page.datasources} keyOf=${({ id: file }) => file} columns=${COLUMNS} empty="It has no file." />
        <${Paging} offset=${offset} shown=${page.datasources.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}
    </details>`;
}
