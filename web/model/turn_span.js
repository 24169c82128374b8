/** Shows a turn as bars: dispatch, queue, model, tools, waiting for people, and lost work. */
import { timeOf, timeOfId } from "./format.js";

const ENDS = { "turn.completed": "completed", "turn.failed": "failed", "turn.cancelled": "cancelled" };
const LONGEST_ON_THE_BUS = 86_400_000;

/** Returns a turn's span. `events` are the turn's, in order. Bars that are still open extend to `now`. */
export function turnSpan(id, events, now) {
  const building = new TurnBuilding(id, events[0]);
  for (const event of events) building.take(event);
  return building.finish(now);
}

class TurnBuilding {
  constructor(id, first) {
    const began = timeOf(first.time);
    const asked = timeOfId(id);
    this.start = asked !== null && asked <= began && began - asked < LONGEST_ON_THE_BUS ? asked : began;
    this.span = {
      id: `turn:${id}`, kind: "turn", service: "runtime", label: "Turn", detail: id.slice(-6), start: this.start, end: null,
      state: "queued", segments: [], children: [], events: [],
    };
    this.attempts = [];
    this.cursor = this.start;
    this.waitsAs = "bus";
    this.last = began;
    this.modelFrom = null;
    this.steps = [];
  }

  take(event) {
    const moment = timeOf(event.time);
    this.span.events.push(event);
    const act = this[event.type];
    if (act) act.call(this, moment, event.data, event);
    else if (event.type in ENDS) this.end(moment, ENDS[event.type], event.data);
    this.last = Math.max(this.last, moment);
  }

  ["turn.queued"](moment) {
    this.wait(moment);
    this.waitsAs = "queue";
  }

  ["turn.started"](moment, { attempt }) {
    this.wait(moment);
    this.begin(moment, attempt);
  }

  ["turn.restarted"](moment, { attempt }) {
    this.cut(this.last);
    this.cursor = this.last;
    this.waitsAs = "lost";
    this.wait(moment);
    this.begin(moment, attempt);
  }

  ["turn.tool_call.started"](moment, { step, call_id: callId, name, arguments: given }) {
    const current = this.stepOf(step, moment);
    // The approval was requested earlier.
    if (!current.tools.some((each) => each.callId === callId)) current.tools.push(tool(callId, name, given, moment));
  }

  ["turn.tool_call.completed"](moment, data) {
    this.endTool(moment, data, "completed");
  }

  ["turn.tool_call.failed"](moment, data) {
    this.endTool(moment, data, "failed");
  }

  ["turn.action_required"](moment, { step, action }) {
    const { id, name, arguments: given } = action.tool_call;
    const current = this.stepOf(step, moment);
    let called = current.tools.find((each) => each.callId === id);
    if (!called) current.tools.push((called = tool(id, name, given, moment)));
    called.waits.push({ id: action.action_id, kind: action.kind, from: moment, to: null });
    this.span.state = "waiting";
  }

  ["turn.action_resolved"](moment, { action_id: actionId }) {
    for (const wait of this.steps.flatMap(({ tools }) => tools.flatMap(({ waits }) => waits))) {
      if (wait.id === actionId) wait.to = moment;
    }
    this.span.state = "running";
  }

  wait(moment) {
    if (moment > this.cursor) this.span.segments.push({ kind: this.waitsAs, from: this.cursor, to: moment });
    this.cursor = moment;
  }

  begin(moment, number) {
    this.span.state = "running";
    this.attempts.push({ number, start: moment, end: null, state: "running", steps: [] });
    this.modelFrom = moment;
  }

  /** Returns a step of the current attempt. A new step starts with the model call that requested its tools. */
  stepOf(number, moment) {
    const attempt = this.attempts.at(-1) ?? this.joined(moment);
    let step = attempt.steps.find((each) => each.number === number);
    if (!step) {
      step = { number, start: this.modelFrom ?? moment, modelEnd: moment, end: null, tools: [] };
      attempt.steps.push(step);
      this.steps.push(step);
      this.modelFrom = null;
    }
    return step;
  }

  /** Returns the current attempt. Creates one if the timeline begins in the middle of the turn. */
  joined(moment) {
    this.begin(moment, 1);
    return this.attempts.at(-1);
  }

  endTool(moment, { step, call_id: callId, name, output, reason }, state) {
    const current = this.stepOf(step, moment);
    let called = current.tools.find((each) => each.callId === callId);
    if (!called) current.tools.push((called = tool(callId, name, null, moment)));
    Object.assign(called, { end: moment, state, result: output ?? reason ?? "" });
    for (const wait of called.waits) wait.to ??= moment;
    if (current.tools.every(({ end }) => end !== null)) {
      current.end = moment;
      this.modelFrom = moment;
    }
  }

  /** Closes open bars when the worker or the turn ends. */
  cut(moment) {
    const attempt = this.attempts.at(-1);
    if (!attempt) return;
    attempt.end = moment;
    attempt.state = "lost";
    for (const step of attempt.steps) {
      for (const each of step.tools.filter(({ end }) => end === null)) {
        Object.assign(each, { end: moment, state: "lost" });
        for (const wait of each.waits) wait.to ??= moment;
      }
      step.end ??= moment;
    }
    if (this.modelFrom !== null && moment > this.modelFrom) this.answer(attempt, moment);
    this.modelFrom = null;
  }

  answer(attempt, end) {
    const number = (attempt.steps.at(-1)?.number ?? this.steps.at(-1)?.number ?? 0) + 1;
    const step = { number, start: this.modelFrom, modelEnd: end, end, tools: [], isAnswer: true };
    attempt.steps.push(step);
    this.steps.push(step);
  }

  end(moment, state, data) {
    if (!this.attempts.length) {
      // The reason is unknown if the events are filtered out.
      if (this.waitsAs === "bus") this.waitsAs = "unknown";
      this.wait(moment);
    }
    this.cut(moment);
    const attempt = this.attempts.at(-1);
    if (attempt) attempt.state = state;
    Object.assign(this.span, { end: moment, state, problem: data.error?.message ?? data.reason ?? "" });
    if (data.usage) this.span.usage = data.usage;
  }

  finish(now) {
    const { span } = this;
    if (span.end === null) this.goOn(Math.max(now, this.last));
    const rows = this.attempts.map((attempt) => attemptSpan(span.id, attempt, span.end ?? now));
    span.segments = [...span.segments, ...rows.flatMap(({ segments }) => segments)];
    span.children = rows.length > 1 ? rows : (rows[0]?.children ?? []);
    return span;
  }

  goOn(now) {
    const attempt = this.attempts.at(-1);
    if (!attempt) this.wait(now);
    else if (this.modelFrom !== null) {
      this.answer(attempt, now);
      attempt.steps.at(-1).isOpen = true;
    }
  }
}

function tool(callId, name, given, start) {
  return { callId, name, arguments: given, start, end: null, state: "running", waits: [], result: null };
}

function attemptSpan(turn, attempt, now) {
  const children = attempt.steps.map((step) => stepSpan(turn, attempt, step, now));
  return {
    id: `${turn}:${attempt.number}`, kind: "attempt", service: "runtime", label: `Attempt ${attempt.number}`, detail: "",
    start: attempt.start, end: attempt.end, state: attempt.state, segments: children.flatMap(({ segments }) => segments),
    children, events: [],
  };
}

function stepSpan(turn, attempt, step, now) {
  const id = `${turn}:${attempt.number}:${step.number}`;
  const model = step.modelEnd > step.start ? [{ kind: "model", from: step.start, to: step.modelEnd }] : [];
  const children = step.tools.map((each) => toolSpan(id, each, now));
  const isOpen = step.isOpen || (step.end === null && attempt.state === "running");
  return {
    id, kind: "step", service: "runtime", label: `Step ${step.number}`, detail: step.tools.length ? "model, then tools" : "model",
    start: step.start, end: isOpen ? null : step.end, state: isOpen ? "running" : stateOf(step, attempt),
    segments: [...model, ...children.flatMap(({ segments }) => segments)], children, events: [],
  };
}

function stateOf(step, attempt) {
  if (step.tools.some(({ state }) => state === "lost")) return "lost";
  if (step.isAnswer && attempt.state === "failed") return "failed";
  return "completed";
}

function toolSpan(step, called, now) {
  const end = called.end ?? now;
  const waits = called.waits.map(({ from, to }) => ({ kind: "person", from, to: to ?? end }));
  const cuts = [called.start, ...waits.flatMap(({ from, to }) => [from, to]), end];
  const works = [];
  for (let at = 0; at < cuts.length; at += 2) {
    if (cuts[at + 1] > cuts[at] || !waits.length) works.push({ kind: "tool", from: cuts[at], to: cuts[at + 1] });
  }
  const waiting = called.waits.some(({ to }) => to === null);
  return {
    id: `${step}:${called.callId}`, kind: "tool", service: "runtime", label: called.name, detail: "tool call", start: called.start,
    end: called.end, state: called.end === null && waiting ? "waiting" : called.state,
    segments: [...works, ...waits].sort((a, b) => a.from - b.from), children: [], events: [], arguments: called.arguments,
    result: called.result,
  };
}
