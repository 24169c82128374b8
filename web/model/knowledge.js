/** Converts the settings of knowledge bases, describes ingestions, and finds passages in texts. */
import { countText, numberText } from "./format.js";

export const ENGINES = [["", "installation default"], ["pgvector", "pgvector"], ["weaviate", "Weaviate"]];
export const STRATEGIES = ["recursive", "fixed_size", "sentence", "paragraph", "page", "markdown", "row"];
export const UNITS = ["token", "word", "sentence", "passage", "page", "line", "character"];
const SEPARATORS = ["\n\n", "\n", ". ", " "];

/** Returns the form's values, all as text. If `given` is null, returns a new knowledge base's defaults. */
export function formOf(given) {
  const chunking = given?.chunking_strategy ?? {};
  const embedding = given?.embedding_config ?? {};
  return {
    name: given?.name ?? "",
    description: given?.description ?? "",
    engine: given?.processing_engine ?? "",
    strategy: chunking.strategy ?? "recursive",
    size: String(chunking.chunk_size ?? 512),
    overlap: String(chunking.chunk_overlap ?? (given ? "" : 64)),
    unit: chunking.split_by ?? "token",
    separators: (chunking.recursive_separators ?? SEPARATORS).map((each) => JSON.stringify(each)).join(" "),
    provider: embedding.provider ?? "wordllama",
    model: embedding.model ?? "",
    dimensions: embedding.dimensions ? String(embedding.dimensions) : "",
  };
}

/** Returns the request body. Throws an error with `details`, like the service's, for an invalid number or list. */
export function bodyOf(form, { collectionIds, fileIds }) {
  const chunking = { strategy: form.strategy, chunk_size: numberIn(form.size, "chunking_strategy", "chunk_size"), split_by: form.unit };
  if (form.overlap.trim()) chunking.chunk_overlap = numberIn(form.overlap, "chunking_strategy", "chunk_overlap");
  if (form.strategy === "recursive") chunking.recursive_separators = separatorsIn(form.separators);
  const embedding = { provider: form.provider.trim() };
  if (form.model.trim()) embedding.model = form.model.trim();
  if (form.dimensions.trim()) embedding.dimensions = numberIn(form.dimensions, "embedding_config", "dimensions");
  return {
    name: form.name.trim(),
    description: form.description,
    collection_ids: collectionIds,
    file_ids: fileIds,
    ...(form.engine ? { processing_engine: form.engine } : {}),
    chunking_strategy: chunking,
    embedding_config: embedding,
  };
}

function separatorsIn(text) {
  const quoted = /"(?:[^"\\]|\\.)*"/g;
  try {
    if (text.replaceAll(quoted, "").trim()) throw new Error("Unexpected text outside the quotes.");
    return [...text.matchAll(quoted)].map(([each]) => JSON.parse(each));
  } catch {
    throw invalid("chunking_strategy", "recursive_separators", 'must be quoted strings, such as "\\n\\n" " "');
  }
}

function numberIn(text, ...loc) {
  const number = Number(text);
  if (text.trim() === "" || !Number.isInteger(number)) throw invalid(...loc, "must be a whole number");
  return number;
}

function invalid(group, name, message) {
  return Object.assign(new Error("Some settings are invalid."), { details: [{ loc: [group, name], message, hint: null }] });
}

/** Returns the problems with one setting, which are the details whose location is `group.name`. */
export function problemAt(problem, group, name) {
  const details = (problem?.details ?? []).filter(({ loc }) => loc[0] === group && (loc[1] === name || (loc[1] === undefined && name === null)));
  return details.length ? { details: details.map((each) => ({ ...each, loc: [name] })) } : null;
}

/** The phases of an ingestion, in order. */
export const PHASES = ["queued", "parsing", "chunking", "embedding", "indexing"];

/** Applies an event to a record. Returns the record, or null if it has to be read again. */
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

/** Describes the current work in one line. */
export function stageText({ status, progress, datasource_count: done, total_datasources: total, processing_metadata: metadata, failed_datasources: failed }) {
  if (status === "completed") return `${countText(done, "file")} searchable.`;
  if (status === "failed") return `${countText(done, "file")} searchable, ${failed.length} failed.`;
  const said = metadata?.message;
  if (status === "pending") return said || "Waiting for ingestion.";
  const { processed_chunks: processed, total_chunks: chunks } = metadata ?? {};
  const passages = chunks ? ` ${numberText(processed)} of ${numberText(chunks)} passages,` : "";
  return `${said || `${numberText(done)} of ${countText(total, "file")} done.`}${passages} ${progress} %`;
}

/** Returns a passage's `[from, to]` in a text, or null. Ignores white space, which differs between pages and cells. */
export function locate(text, passage) {
  const wanted = passage.trim();
  if (!wanted) return null;
  const exact = text.indexOf(wanted);
  if (exact >= 0) return [exact, exact + wanted.length];
  const loose = squeezed(text);
  const found = loose.text.indexOf(squeezed(wanted).text);
  if (found < 0) return null;
  const last = found + squeezed(wanted).text.length - 1;
  return [loose.places[found], loose.places[last] + 1];
}

/** Returns the text without white space, and the position of each remaining character. */
function squeezed(text) {
  const places = [];
  let kept = "";
  for (let at = 0; at < text.length; at += 1) {
    if (/\s/.test(text[at])) continue;
    places.push(at);
    kept += text[at];
  }
  return { text: kept, places };
}

// Stop words aren't highlighted, unless the query contains nothing else.
const STOP_WORDS = new Set(
  ("a about all am an and any are as at be been but by can could did do does for from had has have he her his how i if in into is it its " +
    "may me might must my no not of on or our shall she should so than that the their them then there these they this to us was we were what " +
    "when where which who why will with would you your").split(" "),
);
const ENDINGS = /(?:ies|ing|ed|es|s|y)$/u;

/** Splits the text into pieces `{text, marked}`. The query's words and their inflected forms are marked. */
export function marked(text, query) {
  const all = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]{2,}/gu) ?? [])];
  const telling = all.filter((word) => !STOP_WORDS.has(word));
  const words = (telling.length ? telling : all).map(formsOf).sort((one, other) => other.length - one.length);
  if (words.length === 0) return [{ text, marked: false }];
  const pieces = [];
  let at = 0;
  for (const match of text.matchAll(new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.join("|")})(?![\\p{L}\\p{N}])`, "giu"))) {
    if (match.index > at) pieces.push({ text: text.slice(at, match.index), marked: false });
    pieces.push({ text: match[0], marked: true });
    at = match.index + match[0].length;
  }
  if (at < text.length) pieces.push({ text: text.slice(at), marked: false });
  return pieces;
}

/** Returns a pattern that matches a word with its usual endings. */
function formsOf(word) {
  const stem = word.replace(ENDINGS, "");
  return stem.length >= 3 ? `${stem}(?:ies|ing|ed|es|s|y|${word.slice(stem.length)})?` : word;
}

/** Returns the length in code points, like the service. JavaScript counts UTF-16 units. */
export function characters(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
