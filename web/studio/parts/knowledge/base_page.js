/** A knowledge base: ingestion progress, failed files, and search. */
import { allows, get, write } from "../../../api/client.js";
import { followEvents } from "../../../api/follow.js";
import { html, useEffect, useRef, useState } from "../../../html.js";
import { agoText, countText } from "../../../model/format.js";
import { after, PHASES, stageText } from "../../../model/knowledge.js";
import { go, hrefOf } from "../../router.js";
import { Confirm } from "../forms.js";
import { useAction, useLoaded, useLookAgain } from "../hooks.js";
import { DataTable, Icon, PageHead, Paging, Problem, StatusChip } from "../views.js";
import { Search } from "./search.js";

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
          <p>Its index is deleted. Collections and files remain. Agents that use it continue without it.</p>
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
        <dt>Chunks</dt><dd>${chunking.strategy}, ${countText(chunking.chunk_size, chunking.split_by)} with an overlap of ${chunking.chunk_overlap}</dd>
        <dt>Embedding</dt><dd>${[embedding.provider, embedding.model, embedding.dimensions && `${embedding.dimensions} dimensions`].filter(Boolean).join(", ")}</dd>
        <dt>Created</dt><dd>${agoText(at)} by ${maker}</dd>
        <dt>ID</dt><dd><code>${id}</code></dd>
      </dl>
    </details>`;
}

const LIMIT = 50;
// The overall status is shown once, at the top.
const STATES = { completed: "indexed", pending: "waiting", running: "in progress", failed: "failed to index" };

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
        <${DataTable} label="Files of this knowledge base" items=${page.datasources} keyOf=${({ id: file }) => file} columns=${COLUMNS} empty="No files." />
        <${Paging} offset=${offset} shown=${page.datasources.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}
    </details>`;
}

const LOOK_AGAIN_MS = 2_000;
const READ_AGAIN_MS = 300;

/** Returns a knowledge base. Updates it from the timeline's events, or by polling if the key can't read events. */
export function useKnowledgeBase(id) {
  const { value, problem, refresh, set } = useLoaded((signal) => get(`/knowledge-bases/${id}/`, {}, { signal }), id);
  const latest = useRef(null);
  latest.current = value;
  useEffect(() => {
    if (!allows("events:read")) return undefined;
    const stop = new AbortController();
    let timer = 0;
    // At its end, an ingestion publishes several events at once.
    const later = () => (timer ||= setTimeout(() => ((timer = 0), refresh()), READ_AGAIN_MS));
    const onEvent = ({ data: event }) => {
      const now = latest.current && after(latest.current, event);
      if (now === null) later();
      else if (now !== latest.current) set((latest.current = now));
    };
    const go = async () => {
      // The record is read after the stream has opened, so it includes everything that happened before.
      while (await followEvents({ type: "knowledge_base.*" }, { onEvent, onOpen: later, signal: stop.signal }));
    };
    go().catch(() => later());
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id]);
  const runs = value && ["pending", "running"].includes(value.status);
  // Polls less often if the key may read events. A stuck ingestion doesn't publish any, so polling is still needed.
  const pause = allows("events:read") ? LOOK_AGAIN_MS * 2 : LOOK_AGAIN_MS;
  useLookAgain(refresh, runs ? pause : null, [value]);
  return { knowledgeBase: value, problem, refresh, set };
}

/** Ingestion progress by phase, and the files that failed. */
function Ingestion({ knowledgeBase }) {
  const { status, progress, processing_metadata: metadata } = knowledgeBase;
  const runs = status === "running" || status === "pending";
  const at = PHASES.indexOf(metadata?.phase ?? "queued");
  return html`
    <section class="ingestion-run card" aria-label="Ingestion">
      <progress max="100" value=${progress} aria-label="Ingestion"></progress>
      <p role="status">${stageText(knowledgeBase)}</p>
      ${runs && html`
        <ol class="phases" aria-label="Phases">
          ${PHASES.map((phase, number) => html`<li key=${phase} class=${number < at ? "past" : ""} aria-current=${number === at ? "step" : undefined}>${phase}</li>`)}
        </ol>`}
    </section>`;
}

function IngestionErrors({ knowledgeBase, busy, onAgain }) {
  const { datasource_errors: errors, failed_datasources: failed } = knowledgeBase;
  const names = new Map(failed.map(({ id, name }) => [id, name]));
  const items = Object.entries(errors).map(([id, error]) => ({ id, name: names.get(id) ?? id, ...error }));
  if (items.length === 0) return null;
  return html`
    <div class="section-head">
      <h2>Files that failed to index</h2>
      ${onAgain && html`<button class="button" disabled=${busy} onClick=${onAgain}>Ingest again</button>`}
    </div>
    <${DataTable} label="Errors" items=${items} keyOf=${({ id }) => id} columns=${ERRORS} />`;
}

const ERRORS = [
  { label: "File", className: "plain", cell: ({ id, name }) => html`<a href=${hrefOf(`files/${id}/`)}>${name}</a>` },
  { label: "Reason", cell: ({ code, message }) => html`${message} <code class="muted">${code}</code>` },
  { label: "Phase", cell: ({ phase }) => phase },
  { label: "Attempt", cell: ({ attempt }) => attempt },
  { label: "Retry", cell: ({ retryable }) => (retryable ? "may succeed" : "replace the file") },
];
