/** How far an ingestion is, phase by phase, and which files it could not take up. */
import { html } from "../../../html.js";
import { hrefOf } from "../../router.js";
import { PHASES, stageText } from "../../../model/ingestion.js";
import { DataTable } from "../data_table.js";

export function Ingestion({ knowledgeBase }) {
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

export function IngestionErrors({ knowledgeBase, busy, onAgain }) {
  const { datasource_errors: errors, failed_datasources: failed } = knowledgeBase;
  const names = new Map(failed.map(({ id, name }) => [id, name]));
  const items = Object.entries(errors).map(([id, error]) => ({ id, name: names.get(id) ?? id, ...error }));
  if (items.length === 0) return null;
  return html`
    <div class="section-head">
      <h2>Files that could not be taken up</h2>
      ${onAgain && html`<button class="button" disabled=${busy} onClick=${onAgain}>Ingest again</button>`}
    </div>
    <${DataTable} label="Errors" items=${items} keyOf=${({ id }) => id} columns=${ERRORS} />`;
}

const ERRORS = [
  { label: "File", className: "plain", cell: ({ id, name }) => html`<a href=${hrefOf(`files/${id}/`)}>${name}</a>` },
  { label: "Reason", cell: ({ code, message }) => html`${message} <code class="muted">${code}</code>` },
  { label: "Phase", cell: ({ phase }) => phase },
  { label: "Attempt", cell: ({ attempt }) => attempt },
  { label: "Another try", cell: ({ retryable }) => (retryable ? "may succeed" : "needs another file") },
];
