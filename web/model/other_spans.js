/** Spans of sessions, knowledge bases, artifacts, files and keys, with bars and marks for their events. */
import { countText, timeOf, timeOfId } from "./format.js";

const LONGEST_ON_THE_BUS = 86_400_000;
const NAMES = { api_key: "API key", knowledge_base: "Knowledge base" };

export function otherSpan(kind, id, events, now) {
  if (kind === "knowledge_base") return knowledgeBaseSpan(id, events, now);
  if (kind === "artifact") return artifactSpan(id, events, now);
  return base(kind, id, events);
}

function serviceOf({ source }) {
  return source.slice(source.lastIndexOf("/") + 1);
}

function base(kind, id, events) {
  const moments = events.map((event) => timeOf(event.time));
  const sent = commandOf(events[0], moments[0]);
  const segments = sent === null ? [] : [{ kind: "bus", from: sent, to: moments[0] }];
  return {
    id: `${kind}:${id}`, kind, service: serviceOf(events[0]), label: nameOf(kind, events), detail: id.slice(-6),
    start: sent ?? moments[0], end: moments.reduce((last, moment) => Math.max(last, moment)), state: stateOf(events.at(-1)), segments,
    marks: moments, children: [], events,
  };
}

/** Returns when the event's command was sent, or null if the event isn't a command's outcome. */
function commandOf(event, moment) {
  const sent = timeOfId(event.causation_id);
  const isOutcome = /\.(created|updated|deleted|rejected|accepted|queued)$/.test(event.type);
  return isOutcome && sent !== null && sent <= moment && moment - sent < LONGEST_ON_THE_BUS ? sent : null;
}

function stateOf({ type }) {
  if (/failed|rejected|disabled/.test(type)) return "failed";
  if (/deleted|removed|revoked/.test(type)) return "deleted";
  return "completed";
}

function nameOf(kind, events) {
  for (const { data } of events) {
    const named = data.file ?? data.artifact ?? data.knowledge_base ?? data.collection ?? data.agent;
    if (named?.name) return named.name;
  }
  const words = NAMES[kind] ?? kind.replaceAll("_", " ");
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}

function knowledgeBaseSpan(id, events, now) {
  const span = base("knowledge_base", id, events);
  const runs = new Map();
  const created = events.find(({ type }) => type === "knowledge_base.created");
  for (const event of events.filter(({ data }) => data.ingestion_id)) {
    if (!runs.has(event.data.ingestion_id)) runs.set(event.data.ingestion_id, []);
    runs.get(event.data.ingestion_id).push(event);
  }
  [...runs].forEach(([run, own], at) => {
    const queued = own[0].type.endsWith(".queued") || at > 0 || !created ? timeOf(own[0].time) : timeOf(created.time);
    span.children.push(ingestionSpan(run, own, queued, now));
  });
  for (const child of span.children) span.segments.push(...child.segments);
  // The events of ingestions have rows of their own.
  span.marks = events.filter(({ data }) => !data.ingestion_id).map((event) => timeOf(event.time));
  if (span.children.some(({ end }) => end === null)) Object.assign(span, { end: null, state: "running" });
  return span;
}

function ingestionSpan(id, events, start, now) {
  const last = events.at(-1);
  const ended = /ingestion\.(completed|failed)$/.test(last.type);
  const end = ended ? timeOf(last.time) : null;
  const counted = last.data.total_datasources ?? last.data.datasource_count;
  return {
    id: `ingestion:${id}`, kind: "ingestion", service: "ingestion", label: "Ingestion", detail: counted ? countText(counted, "file") : "",
    start, end, state: ended ? stateOf(last) : "running", segments: [{ kind: "work", from: start, to: end ?? now }],
    marks: events.map((event) => timeOf(event.time)), children: [], events, progress: last.data.progress,
  };
}

function artifactSpan(id, events, now) {
  const span = base("artifact", id, events);
  const own = events.filter(({ source }) => source.endsWith("/artifacts"));
  const indexing = events.filter(({ type }) => type.startsWith("artifact.index"));
  const uploaded = own.find(({ type }) => type === "artifact.uploaded");
  const ended = own.find(({ type }) => type === "artifact.ready" || type === "artifact.failed");
  const isReady = uploaded && uploaded.data.artifact?.processing_status !== "pending" && !ended;
  if (uploaded && !isReady) {
    const from = timeOf(uploaded.time);
    span.segments.push({ kind: "work", from, to: ended ? timeOf(ended.time) : now });
    if (!ended) Object.assign(span, { end: null, state: "running" });
  }
  span.marks = own.map((event) => timeOf(event.time));
  if (indexing.length) span.children.push(indexingSpan(id, indexing, now));
  return span;
}

function indexingSpan(id, events, now) {
  const last = events.at(-1);
  const ended = last.type !== "artifact.indexing";
  const start = timeOf(events[0].time);
  const end = ended ? timeOf(last.time) : null;
  return {
    id: `indexing:${id}`, kind: "indexing", service: "ingestion", label: "Indexing", detail: "", start, end,
    state: ended ? stateOf(last) : "running", segments: [{ kind: "work", from: start, to: end ?? now }],
    marks: events.map((event) => timeOf(event.time)), children: [], events,
  };
}
