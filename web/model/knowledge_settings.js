/** The settings of a knowledge base, as a form holds them and as the API takes them. */

export const ENGINES = [["", "of this installation"], ["pgvector", "pgvector"], ["weaviate", "Weaviate"]];
export const STRATEGIES = ["recursive", "fixed_size", "sentence", "paragraph", "page", "markdown", "row"];
export const UNITS = ["token", "word", "sentence", "passage", "page", "line", "character"];
const SEPARATORS = ["\n\n", "\n", ". ", " "];

/** What a form holds: texts. Of a new knowledge base when `given` is null. */
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

/** The request's body. Throws an error with `details`, like the service's, for what is no number or no list. */
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
    if (text.replaceAll(quoted, "").trim()) throw new Error("Something stands beside the quotes.");
    return [...text.matchAll(quoted)].map(([each]) => JSON.parse(each));
  } catch {
    throw invalid("chunking_strategy", "recursive_separators", 'must be quoted texts, such as "\\n\\n" " "');
  }
}

function numberIn(text, ...loc) {
  const number = Number(text);
  if (text.trim() === "" || !Number.isInteger(number)) throw invalid(...loc, "must be a whole number");
  return number;
}

function invalid(group, name, message) {
  return Object.assign(new Error("Something is not valid."), { details: [{ loc: [group, name], message, hint: null }] });
}

/** The problems of one setting, so that its field can tell them: details whose place is `group.name`. */
export function problemAt(problem, group, name) {
  const details = (problem?.details ?? []).filter(({ loc }) => loc[0] === group && (loc[1] === name || (loc[1] === undefined && name === null)));
  return details.length ? { details: details.map((each) => ({ ...each, loc: [name] })) } : null;
}
