/** One line that says what an event tells, in words. */
import { durationText, numberText, sizeText } from "./format.js";

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
  "turn.completed": ({ response, usage }) => `${response?.content ?? ""}${usage ? ` (${numberText(usage.input_tokens + usage.output_tokens)} tokens)` : ""}`,
  "turn.failed": ({ error }) => error?.message,
  "turn.cancelled": ({ reason }) => reason,
  "artifact.uploaded": ({ artifact }) => `${artifact.name}, ${sizeText(artifact.size)}`,
  "artifact.failed": ({ error }) => error?.message,
  "artifact.indexed": ({ passages }) => `${numberText(passages)} passages`,
  "file.uploaded": ({ file }) => `${file.name}, ${sizeText(file.size)}`,
  "knowledge_base.ingestion.completed": ({ datasource_count: files, chunk_count: chunks }) => `${files} files, ${chunks} passages`,
  "knowledge_base.ingestion.failed": ({ error }) => error?.message,
  "knowledge_base.datasource.failed": ({ file_name: name, error }) => `${name}: ${error?.message}`,
};

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

export function lengthText(from, to) {
  return durationText(to - from);
}
