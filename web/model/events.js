/** Describes and searches the timeline's events, and reads the newest ones. */
import { clockText, countText, durationText, sizeText } from "./format.js";

const SAY = {
  "turn.queued": ({ position }) => `position ${position} in the queue`,
  "turn.started": ({ attempt }) => (attempt > 1 ? `attempt ${attempt}` : "started by a worker"),
  "turn.restarted": ({ attempt, resumed_from_step: step }) => `attempt ${attempt}, resumes after step ${step}`,
  "turn.tool_call.started": ({ name, arguments: given }) => `${name} ${compact(given)}`,
  "turn.tool_call.completed": ({ name, output }) => `${name} → ${output ?? ""}`,
  "turn.tool_call.failed": ({ name, reason }) => `${name}: ${reason}`,
  "turn.action_required": ({ action }) => `${action.kind === "approval" ? "asks for approval of" : "asks the caller to run"} ${action.tool_call.name}`,
  "turn.action_resolved": ({ decision, kind }) => decision ?? kind,
  "turn.citation.added": ({ citation }) => `${citation.file_name ?? "passage"}: ${citation.passage}`,
  "turn.completed": ({ response, usage }) => `${response?.content ?? ""}${usage ? ` (${countText(usage.input_tokens + usage.output_tokens, "token")})` : ""}`,
  "turn.failed": ({ error }) => error?.message,
  "turn.cancelled": ({ reason }) => reason,
  "artifact.uploaded": ({ artifact }) => `${artifact.name}, ${sizeText(artifact.size)}`,
  "artifact.failed": ({ error }) => error?.message,
  "artifact.indexed": ({ passages }) => countText(passages, "passage"),
  "file.uploaded": ({ file }) => `${file.name}, ${sizeText(file.size)}`,
  "knowledge_base.ingestion.completed": ({ datasource_count: files, chunk_count: chunks }) => `${countText(files, "file")}, ${countText(chunks, "passage")}`,
  "knowledge_base.ingestion.failed": ({ error }) => error?.message,
  "knowledge_base.datasource.failed": ({ file_name: name, error }) => `${name}: ${error?.message}`,
};

/** Describes an event in one line. */
export function eventText({ type, data }) {
  const say = SAY[type];
  const text = say ? say(data) : plain(data);
  return String(text ?? "").replace(/\s+/g, " ").slice(0, 300);
}

function plain(data) {
  if (data.error?.message) return data.error.message;
  if (typeof data.progress === "number") return `${data.progress} %`;
  const named = data.file ?? data.artifact ?? data.knowledge_base ?? data.collection ?? data.agent;
  return named?.name ?? data.name ?? data.reason ?? "";
}

function compact(value) {
  return value ? JSON.stringify(value) : "";
}

export function serviceOf({ source }) {
  return source.slice(source.lastIndexOf("/") + 1);
}

export function isFailure({ type }) {
  return /failed$|rejected$|disabled$|restarted$/.test(type);
}

export const LEGEND = {
  bus: "dispatch (Kafka)",
  queue: "in the queue",
  model: "model",
  tool: "tool",
  work: "work",
  person: "waiting for a person",
  lost: "lost (worker died)",
  unknown: "unknown",
};

function lengthText(from, to) {
  return durationText(to - from);
}

/** A filter for events by text in any field, and by failure. */
export const NO_WISH = { text: "", failures: false };

// Cached by event, since every keystroke searches the same events.
const texts = new WeakMap();

function textOf(event) {
  let text = texts.get(event);
  if (text === undefined) texts.set(event, (text = JSON.stringify(event).toLowerCase()));
  return text;
}

/** Returns the events that contain every word of the query in any field. */
export function found(events, { text, failures }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => JSON.stringify(word).slice(1, -1));
  if (!words.length && !failures) return events;
  return events.filter((event) => (!failures || isFailure(event)) && words.every((word) => textOf(event).includes(word)));
}

/**
 * Reads the newest events of the timeline. Resolves to `{events, next, isCut, before}`: `events`, oldest first; `next`,
 * the position to follow from; and `isCut`, whether `pages` ended the reading. To read older events, continue
 * with `before`.
 *
 * `page(query)` reads a page of `GET /events/`. Pages are read backwards until the beginning, or until
 * `isEnough(events)`, whose events are newest first. A page may be empty even if more follow, so at most `pages` are
 * read. `onPart(events)`, whose events are oldest first, is called after each page.
 */
export async function newestEvents(page, isEnough, { pages = 25, before, onPart = () => {} } = {}) {
  const found = [];
  let next = 0;
  let isCut = true;
  for (let read = 0; read < pages; read += 1) {
    const { events, has_more: hasMore, next: reached } = await page({ order: "desc", before });
    // No event can be added between the newest event and the older ones that are read after it.
    if (read === 0) next = events[0]?.position ?? Math.max(0, reached - 1);
    found.push(...events);
    before = reached;
    isCut = hasMore && !isEnough(found);
    if (!isCut) break;
    onPart(found.toReversed());
  }
  return { events: found.toReversed(), next, isCut, before };
}

const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

/** Formats the time of day with milliseconds, and with the date unless it's today. */
export function whenText(milliseconds, now = Date.now()) {
  const [day, today] = [milliseconds, now].map((each) => DATE.format(new Date(each)));
  return day === today ? clockText(milliseconds) : `${DAY.format(new Date(milliseconds))}, ${clockText(milliseconds)}`;
}

/** Formats the date and time with milliseconds. */
export function exactText(milliseconds) {
  return `${DATE.format(new Date(milliseconds))}, ${clockText(milliseconds)}`;
}
