/** Builds a tree of spans, across all services, from the events of a timeline. */
import { otherSpan } from "./other_spans.js";
import { merged } from "./scale.js";
import { turnSpan } from "./turn_span.js";

/** Returns `{roots, start, end, totals, running}` for events in the order of their positions. */
export function traceOf(events, now = Date.now()) {
  const subjects = bySubject(events);
  const spans = [...subjects.values()].map(({ kind, id, events: own }) =>
    kind === "turn" ? turnSpan(id, own, now) : otherSpan(kind, id, own, now),
  );
  const roots = inSessions(spans, subjects).sort((a, b) => a.start - b.start);
  const all = [...walk(roots)];
  const start = all.reduce((first, span) => Math.min(first, span.start), Infinity);
  const end = all.reduce((last, span) => Math.max(last, span.end ?? now), start);
  return { roots, start, end, totals: totalsOf(all), running: all.some((span) => span.end === null) };
}

/** Returns the intervals of activity that the scale covers. */
export function activityOf(trace, now) {
  const intervals = [];
  for (const span of walk(trace.roots)) {
    for (const { from, to, kind } of span.segments) {
      // Waiting for a person can take days, so only its start and its end count as activity.
      if (kind === "person") intervals.push([from, from], [to, to]);
      else intervals.push([from, to]);
    }
    for (const moment of span.marks ?? []) intervals.push([moment, moment]);
    if (span.end === null) intervals.push([now, now]);
  }
  return intervals;
}

export function* walk(spans) {
  for (const span of spans) {
    yield span;
    yield* walk(span.children);
  }
}

/** Returns the total times of work and waiting. Overlaps count once. */
function totalsOf(spans) {
  const segments = spans.filter(({ kind }) => kind !== "session").flatMap((span) => span.segments);
  const lengthOf = (...kinds) => {
    const chosen = segments.filter(({ kind }) => kinds.includes(kind)).map(({ from, to }) => [from, to]);
    return merged(chosen).reduce((sum, [from, to]) => sum + to - from, 0);
  };
  return {
    waited: lengthOf("bus", "queue"),
    people: lengthOf("person"),
    lost: lengthOf("lost"),
    model: lengthOf("model"),
    tools: lengthOf("tool"),
    work: lengthOf("work"),
  };
}

function bySubject(events) {
  const subjects = new Map();
  for (const event of events) {
    const kind = kindOf(event);
    const id = kind === "turn" ? (event.turn_id ?? event.subject) : event.subject;
    const key = `${kind}:${id}`;
    if (!subjects.has(key)) subjects.set(key, { kind, id, session: event.session_id ?? null, events: [] });
    subjects.get(key).events.push(event);
  }
  return subjects;
}

/** Returns the kind of an event's subject. The event's type starts with it, except for a cancel command's outcome. */
function kindOf({ type }) {
  if (type === "cancel_turn.accepted") return "turn";
  return type.slice(0, type.indexOf("."));
}

/** Nests turns and artifacts below their session if it has several of them, or events of its own. */
function inSessions(spans, subjects) {
  const keys = [...subjects.values()];
  const members = new Map();
  spans.forEach((span, at) => {
    const { session } = keys[at];
    if (!session) return;
    if (!members.has(session)) members.set(session, []);
    members.get(session).push(span);
  });
  const roots = spans.filter((_, at) => !keys[at].session);
  for (const [session, own] of members) {
    if (own.length === 1) roots.push(own[0]);
    else roots.push(sessionSpan(session, own));
  }
  return roots;
}

function sessionSpan(id, members) {
  const itself = members.find(({ kind }) => kind === "session");
  const children = members.filter((span) => span !== itself).sort((a, b) => a.start - b.start);
  const everything = itself ? [itself, ...children] : children;
  const open = children.some(({ end }) => end === null);
  return {
    id: `sessions:${id}`, kind: "session", service: "runtime", label: "Session", detail: id.slice(-6),
    start: everything.reduce((first, span) => Math.min(first, span.start), Infinity),
    end: open ? null : everything.reduce((last, span) => Math.max(last, span.end), 0),
    state: open ? "running" : "completed",
    segments: itself?.segments ?? [], marks: itself?.marks ?? [], children, events: itself?.events ?? [],
  };
}
