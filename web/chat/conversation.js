/** Assembles a conversation from messages, events and streams, in any order and even repeated. Also sends messages. */
import { ApiError, randomKey } from "../api/requests.js";

const PAGE = 200;
const RECORDS_MS = 15_000;
/** The fields that a content block may have in a message. */
const SENT = {
  text: ({ text }) => ({ type: "text", text }),
  image_url: ({ image_url: image }) => ({ type: "image_url", image_url: image }),
  file: ({ source }) => ({ type: "file", source: { artifact_id: source.artifact_id } }),
  image: ({ url }) => ({ type: "image", url }),
};
const ENDS = { "turn.completed": "completed", "turn.failed": "failed", "turn.cancelled": "cancelled" };

export class Conversation {
  turns = [];
  #byId = new Map();
  /** Adds messages that don't belong to a turn. */
  given = null;

  turn(id) {
    let found = this.#byId.get(id);
    if (!found) {
      found = new Turn(id);
      this.#byId.set(id, found);
      this.turns.push(found);
    }
    return found;
  }

  has(id) {
    return this.#byId.has(id);
  }

  /** Adds a message that is being sent. Its turn doesn't have an id yet. */
  add(message) {
    const sent = new Turn(null);
    Object.assign(sent, { ...message, status: "sending" });
    this.turns.push(sent);
    return sent;
  }

  /** Removes turns that have ended. */
  forgetEnded() {
    const ended = new Set(this.turns.filter((each) => (each.id || this.given?.has(each)) && each.hasEnded));
    for (const { id } of ended) this.#byId.delete(id);
    this.given?.forget();
    this.turns = this.turns.filter((each) => !ended.has(each));
  }

  /** Removes a message that didn't become a turn. */
  drop(turn) {
    this.turns = this.turns.filter((each) => each !== turn);
  }

  /** Sets the id that the service assigned to a pending turn. */
  name(turn, id) {
    if (turn.id === id) return;
    const known = this.#byId.get(id);
    if (known && known !== turn) this.turns = this.turns.filter((each) => each !== known);
    turn.id = id;
    this.#byId.set(id, turn);
  }

  /** Adds messages in order, the first at `offset`, and inserts new turns. */
  takeMessages(messages, offset = 0) {
    let given = null;
    for (const [at, message] of messages.entries()) {
      if (!message.turn_id) {
        given = this.given?.take(this, given, message, offset + at);
        continue;
      }
      given = null;
      const turn = this.turn(message.turn_id);
      turn.at ??= message.timestamp;
      if (message.role === "user") {
        turn.content = message.content;
        turn.messageId = message.id;
        turn.at = message.timestamp;
        turn.takeBlocks(message.content_blocks ?? []);
      } else if (message.role === "assistant" && !turn.hasEnded) {
        turn.answer = message.content;
        turn.status = "completed";
      }
    }
    this.turns.sort(byTime);
  }
}

/** Sorts turns by the times of their messages. Turns without a known message come last. */
function byTime({ at: a }, { at: b }) {
  if (a === b) return 0;
  return b === null || (a !== null && a < b) ? -1 : 1;
}

export class Turn {
  static #last = 0;
  content = null;
  /** The content as it can be sent again, or null if it's only text. */
  blocks = null;
  /** Files of the message, `{id, name, artifact}`. The artifact's record is loaded later, unless it was deleted. */
  attachments = [];
  at = null;
  /** Set for messages that this page sends. */
  idempotencyKey = null;
  /** The session that contains the message's files, or null for this session. */
  sessionId = null;
  /** Whether an event of the turn has arrived, not only its messages. */
  hasEvents = false;
  status = "queued";
  attempt = 1;
  answer = null;
  problem = "";
  /** A reference with which operators can look up why the turn failed. */
  reference = null;
  usage = null;
  citations = [];
  artifacts = [];
  actions = [];
  steps = [];

  constructor(id) {
    this.id = id;
    // Stable while the turn is shown, unlike the id, which a pending message doesn't have yet.
    this.key = Turn.#last += 1;
  }

  get hasEnded() {
    return ["completed", "failed", "cancelled", "refused"].includes(this.status);
  }

  /** Sets the message's blocks, and keeps file records that are already known. */
  takeBlocks(blocks) {
    const known = new Map(this.attachments.map((each) => [each.id, each]));
    const files = blocks.filter(({ type }) => type === "file" || type === "image");
    this.attachments = files.map(({ source, artifact_id: ofImage = null, name = "" }) => {
      const id = source?.artifact_id ?? ofImage;
      return known.get(id) ?? { id, name, artifact: null };
    });
    this.blocks = blocks.flatMap((block) => SENT[block.type]?.(block) ?? []);
  }

  /** Applies an event of this turn. Returns true for the last event. */
  take(type, data) {
    this.hasEvents = true;
    const act = this[type];
    if (act) act.call(this, data);
    if (type in ENDS) this.#end(ENDS[type], data);
    return type in ENDS;
  }

  ["turn.queued"]() {
    if (!this.hasEnded) this.status = "queued";
  }

  ["turn.started"]({ attempt }) {
    this.attempt = attempt;
    this.status = "running";
  }

  ["turn.restarted"]({ attempt, resumed_from_step: kept }) {
    this.attempt = attempt;
    this.status = "running";
    for (const step of this.steps.filter(({ number }) => number > kept)) Object.assign(step, { text: "", length: 0 });
  }

  ["turn.output_text.delta"]({ attempt, step: number, offset, text }) {
    if (attempt < this.attempt) return;
    const step = this.stepOf(number);
    if (offset > step.length) return;
    // Offsets count code points, whereas JavaScript counts UTF-16 units.
    const fresh = [...text].slice(step.length - offset);
    step.text += fresh.join("");
    step.length += fresh.length;
  }

  ["turn.tool_call.started"]({ step, call_id: id, name, arguments: given }) {
    Object.assign(this.callOf(step, id, name), { arguments: given });
  }

  ["turn.tool_call.completed"]({ step, call_id: id, name, output }) {
    Object.assign(this.callOf(step, id, name), { status: "completed", output });
  }

  ["turn.tool_call.failed"]({ step, call_id: id, name, reason }) {
    Object.assign(this.callOf(step, id, name), { status: "failed", output: reason });
  }

  ["turn.action_required"]({ step, action }) {
    const { id, name, arguments: given } = action.tool_call;
    // The service reveals a call's name to visitors only once their page has to run it.
    Object.assign(this.callOf(step, id, name), { name, arguments: given, status: "waiting", action });
    this.status = "waiting";
  }

  ["turn.action_resolved"]({ action_id: id, decision }) {
    for (const call of this.calls) {
      if (call.action?.action_id === id) Object.assign(call, { action: null, decision, status: call.status === "waiting" ? "running" : call.status });
    }
    if (this.status === "waiting" && !this.calls.some(({ action }) => action)) this.status = "running";
  }

  ["turn.citation.added"]({ citation }) {
    if (!this.citations.some((each) => each.passage === citation.passage)) this.citations.push(citation);
  }

  get calls() {
    return this.steps.flatMap(({ calls }) => calls);
  }

  /** The reply's text so far. */
  get text() {
    return this.answer ?? this.steps.findLast(({ calls }) => !calls.length)?.text ?? "";
  }

  #end(status, data) {
    this.status = status;
    for (const call of this.calls) {
      call.action = null;
      if (call.status === "running" || call.status === "waiting") call.status = "unknown";
    }
    if (status === "failed") {
      this.problem = data.error?.message ?? "The turn has failed.";
      this.reference = data.error?.correlation_id ?? null;
    }
    if (status !== "completed") return;
    const { content, citations, artifacts, tool_calls: calls } = data.response;
    Object.assign(this, { answer: content, citations: citations ?? [], artifacts: artifacts ?? [], usage: data.usage ?? null });
    for (const each of calls ?? []) {
      const call = this.calls.find(({ id }) => id === each.id);
      if (call) Object.assign(call, { status: each.status, arguments: each.arguments, output: each.output ?? call.output });
    }
  }

  stepOf(number) {
    let found = this.steps.find((each) => each.number === number);
    if (!found) {
      found = { number, text: "", length: 0, calls: [] };
      this.steps.push(found);
      this.steps.sort((a, b) => a.number - b.number);
    }
    return found;
  }

  callOf(number, id, name) {
    const step = this.stepOf(number);
    let found = step.calls.find((each) => each.id === id);
    if (!found) step.calls.push((found = { id, name, arguments: null, status: "running", output: null, action: null, decision: null }));
    return found;
  }
}

/**
 * A session's conversation, which the studio or any web page reads and continues. `api` makes the requests: `{get,
 * send, write, follow}`. `changed` is called after each change.
 */
export class Talk {
  #loading = Promise.resolve();
  #gone = new Set();

  constructor(api, sessionId) {
    this.api = api;
    this.sessionId = sessionId;
    this.conversation = new Conversation();
    this.abort = new AbortController();
    this.followed = new Set();
    this.changed = () => {};
    /** Called when the service has accepted the turn's message. */
    this.accepted = () => {};
  }

  get turns() {
    return this.conversation.turns;
  }

  end() {
    this.abort.abort();
  }

  /** Reads messages from `offset` on. Returns the total number of messages. */
  async loadMessages(offset, limit = PAGE) {
    const { signal } = this.abort;
    const { messages, total } = await this.api.get(`/runtime/${this.sessionId}/messages/`, { offset, limit }, { signal });
    this.conversation.takeMessages(messages, offset);
    this.changed();
    // If a file's record can't be loaded, only the file's name is shown.
    this.#loading = this.#loading.then(() => this.#loadAttached()).catch(() => null);
    return total;
  }

  /** Reads the records of the files in messages. Doesn't retry. */
  async #loadAttached() {
    const unknown = this.turns.flatMap(({ attachments }) => attachments).filter(({ id, artifact }) => id && !artifact && !this.#gone.has(id));
    if (!unknown.length) return;
    const signal = AbortSignal.any([this.abort.signal, AbortSignal.timeout(RECORDS_MS)]);
    const response = await this.api.send("GET", `/sessions/${this.sessionId}/artifacts/`, { query: { limit: PAGE }, signal });
    const { artifacts } = await response.json();
    const known = new Map(artifacts.map((artifact) => [artifact.artifact_id, artifact]));
    for (const each of unknown) each.artifact = known.get(each.id) ?? (await this.#recordOf(each.id, signal));
    this.changed();
  }

  /** Reads the record of a file that isn't in the session. It may be in the session from which this one was forked. */
  async #recordOf(id, signal) {
    try {
      return await (await this.api.send("GET", `/artifacts/${id}/`, { signal })).json();
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      this.#gone.add(id);
      return null;
    }
  }

  /** Returns the number of messages. */
  async countMessages() {
    const { total } = await this.api.get(`/runtime/${this.sessionId}/messages/`, { limit: 1 }, { signal: this.abort.signal });
    return total;
  }

  /** Follows a turn from its start. `begin` is the request that starts the turn, if this page does. */
  async followTurn(turn, begin = null) {
    if (turn.id) {
      this.followed.add(turn.id);
      // The stream repeats its text and calls from the beginning.
      turn.steps = [];
    }
    const known = () => ({ path: `/runtime/${this.sessionId}/turns/${turn.id}/events/` });
    try {
      await this.api.follow({
        signal: this.abort.signal,
        open: () => (turn.id ? known() : begin),
        onOpen: (response) => this.#named(turn, response),
        onEvent: ({ event, data }) => {
          const last = turn.take(event, data);
          this.changed();
          return last;
        },
      });
    } catch (problem) {
      Object.assign(turn, { status: turn.id ? "failed" : "refused", problem: sentenceOf(problem), reference: problem.correlationId ?? null });
    }
    this.changed();
  }

  #named(turn, response) {
    const id = response.headers.get("location")?.match(/turns\/([^/]+)\//)?.[1];
    if (!id || turn.id) return;
    this.conversation.name(turn, id);
    this.followed.add(id);
    this.accepted(turn);
    this.changed();
  }

  /** Sends a message with files of the session. */
  say(text, files) {
    const named = files.map(({ artifact }) => ({ type: "file", source: { artifact_id: artifact.artifact_id } }));
    const blocks = named.length ? [...(text ? [{ type: "text", text }] : []), ...named] : null;
    const attachments = files.map(({ artifact }) => ({ id: artifact.artifact_id, name: artifact.name, artifact }));
    return this.sendMessage({ content: text, blocks, attachments });
  }

  /**
   * Sends a turn's message, of this session or of the one it was forked from. Every retry, whether automatic or not,
   * uses the same idempotency key, so that only one message is stored.
   */
  sendMessage({ idempotencyKey, content, blocks, attachments }) {
    const own = { idempotencyKey: idempotencyKey ?? randomKey(), at: new Date().toISOString() };
    return this.deliver(this.conversation.add({ ...own, content, blocks, attachments }));
  }

  deliver(turn) {
    const { idempotencyKey, content, blocks } = turn;
    this.changed();
    return this.followTurn(turn, {
      method: "POST",
      path: `/runtime/${this.sessionId}/execute/`,
      body: { content: blocks ?? content },
      headers: { "idempotency-key": idempotencyKey, "x-correlation-id": `chat-${randomKey().slice(0, 16)}` },
    });
  }

  /** Sends a rejected message again. */
  sayAgain(turn) {
    if (!this.turns.includes(turn)) return undefined;
    this.conversation.drop(turn);
    return this.sendMessage(turn);
  }

  async stop(turn) {
    try {
      await this.api.write("POST", `/runtime/${this.sessionId}/turns/${turn.id}/cancel/`);
    } catch (problem) {
      // A 409 means that the turn had already ended.
      if (!(problem instanceof ApiError) || problem.status !== 409) throw problem;
    }
  }

  async resolve(turn, action, answer) {
    const path = `/runtime/${this.sessionId}/turns/${turn.id}/actions/${action.action_id}/`;
    await this.api.send("POST", path, { body: answer });
  }
}

/** Returns an error's text, without details that repeat the message. */
export function sentenceOf(problem) {
  const whole = problem.message.toLowerCase();
  const details = (problem.details ?? []).map(({ message }) => message).filter((each) => each && !whole.includes(each.toLowerCase()));
  return [problem.message, ...details].join(" ");
}
