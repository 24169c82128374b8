/** Events of the timeline in words, those that somebody looks for, and those that are read first. */
import { clockText, countText, durationText, sizeText } from "./format.js";

const SAY = {
  "turn.queued": ({ position }) => `waits, at place ${position}`,
  "turn.started": ({ attempt }) => (attempt > 1 ? `attempt ${attempt}` : "a worker has it"),
  "turn.restarted": ({ attempt, resumed_from_step: step }) => `attempt ${attempt}, goes on after step ${step}`,
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

/** One line that says what an event tells, in words. */
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
  bus: "on the bus",
  queue: "in the queue",
  model: "model",
  tool: "tool",
  work: "work",
  person: "waits for a person",
  lost: "lost with its worker",
  unknown: "not known",
};

function lengthText(from, to) {
  return durationText(to - from);
}

/** Events with a text anywhere in them, and failures alone. */
export const NO_WISH = { text: "", failures: false };

// Of each event what is looked through, since the same events are looked through at every letter.
const texts = new WeakMap();

function textOf(event) {
  let text = texts.get(event);
  if (text === undefined) texts.set(event, (text = JSON.stringify(event).toLowerCase()));
  return text;
}

/** Those that have every word of the wish, wherever. */
export function found(events, { text, failures }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => JSON.stringify(word).slice(1, -1));
  if (!words.length && !failures) return events;
  return events.filter((event) => (!failures || isFailure(event)) && words.every((word) => textOf(event).includes(word)));
}

/**
 * The newest events of the timeline, oldest first, after which position the next ones come, and whether there are
 * older ones that were to be read, too: `{events, next, isCut, before}`; with that `before` the reading goes on.
 *
 * `page(query)` reads a page of `GET /events/`; it is read backwards until `isEnough(events so far, newest first)` or
 * nothing is left. A page may be empty while there is more: at most `pages` are read. `onPart(events so far, oldest first)`
 * is called while more is read.
 */
export async function newestEvents(page, isEnough, { pages = 25, before, onPart = () => {} } = {}) {
  const found = [];
  let next = 0;
  let isCut = true;
  for (let read = 0; read < pages; read += 1) {
    const { events, has_more: hasMore, next: reached } = await page({ order: "desc", before });
    // Nothing can have come between the newest event and those that are read after it.
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

/** Time of day with milliseconds; with the day where that is not today. */
export function whenText(milliseconds, now = Date.now()) {
  const [day, today] = [milliseconds, now].map((each) => DATE.format(new Date(each)));
  return day === today ? clockText(milliseconds) : `${DAY.format(new Date(milliseconds))}, ${clockText(milliseconds)}`;
}

/** Date and time with milliseconds. */
export function exactText(milliseconds) {
  return `${DATE.format(new Date(milliseconds))}, ${clockText(milliseconds)}`;
}
