/** How far an ingestion is, of a knowledge base's record and of the events that come after it. */
import { countText, numberText } from "./format.js";

export const PHASES = ["queued", "parsing", "chunking", "embedding", "indexing"];

/** The record after an event of the timeline; the same one when the event is about another, and null when it has to be read anew. */
export function after(knowledgeBase, { type, data }) {
  const id = data.knowledge_base_id ?? data.knowledge_base?.id;
  if (id !== knowledgeBase.id) return knowledgeBase;
  if (type !== "knowledge_base.ingestion.progress") return null;
  return {
    ...knowledgeBase,
    status: "running",
    progress: data.progress,
    total_datasources: data.total_datasources,
    datasource_count: data.finished_datasources,
    processing_metadata: data.metadata,
  };
}

/** One line that says what goes on. */
export function stageText({ status, progress, datasource_count: done, total_datasources: total, processing_metadata: metadata, failed_datasources: failed }) {
  if (status === "completed") return `${countText(done, "file")} searchable.`;
  if (status === "failed") return `${countText(done, "file")} searchable, ${failed.length} failed.`;
  const said = metadata?.message;
  if (status === "pending") return said || "Waits for its ingestion.";
  const { processed_chunks: processed, total_chunks: chunks } = metadata ?? {};
  const passages = chunks ? ` ${numberText(processed)} of ${numberText(chunks)} passages,` : "";
  return `${said || `${numberText(done)} of ${countText(total, "file")} done.`}${passages} ${progress} %`;
}
