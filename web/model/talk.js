/** A session's conversation with what is sent into it: by the studio's chat, and by the chat of any page. */
import { ApiError, randomKey } from "../api/requests.js";
import { Conversation } from "./conversation.js";

const PAGE = 200;
const RECORDS_MS = 15_000;

/** `api` makes the requests: `{get, send, write, follow}`. `changed` is called whenever there is something to show. */
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
    /** Is told of a turn whose message the service has taken. */
    this.accepted = () => {};
  }

  get turns() {
    return this.conversation.turns;
  }

  end() {
    this.abort.abort();
  }

  /** Reads messages from `offset` on; returns how many there are in all. */
  async loadMessages(offset, limit = PAGE) {
    const { signal } = this.abort;
    const { messages, total } = await this.api.get(`/runtime/${this.sessionId}/messages/`, { offset, limit }, { signal });
    this.conversation.takeMessages(messages, offset);
    this.changed();
    // Without its record a file is a name.
    this.#loading = this.#loading.then(() => this.#loadAttached()).catch(() => null);
    return total;
  }

  /** Reads the records of the files that messages name; tries it once. */
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

  /** The record of a file that the session does not have: it may be of the session that this one was forked from. */
  async #recordOf(id, signal) {
    try {
      return await (await this.api.send("GET", `/artifacts/${id}/`, { signal })).json();
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      this.#gone.add(id);
      return null;
    }
  }

  /** How many messages there are. */
  async countMessages() {
    const { total } = await this.api.get(`/runtime/${this.sessionId}/messages/`, { limit: 1 }, { signal: this.abort.signal });
    return total;
  }

  /** Follows a turn from its start, or from the request that begins it. */
  async followTurn(turn, begin = null) {
    if (turn.id) {
      this.followed.add(turn.id);
      // The stream has its text and calls from the beginning.
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
    return this.tell({ content: text, blocks, attachments });
  }

  /**
   * Sends what a turn said, of this session or of one that it was forked from. Every repeat has the same key, after a lost
   * connection and by hand, so that it is one message.
   */
  tell({ idempotencyKey, content, blocks, attachments }) {
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

  /** Sends a message that was refused once more. */
  sayAgain(turn) {
    if (!this.turns.includes(turn)) return undefined;
    this.conversation.drop(turn);
    return this.tell(turn);
  }

  async stop(turn) {
    try {
      await this.api.write("POST", `/runtime/${this.sessionId}/turns/${turn.id}/cancel/`);
    } catch (problem) {
      // It had ended already.
      if (!(problem instanceof ApiError) || problem.status !== 409) throw problem;
    }
  }

  async resolve(turn, action, answer) {
    const path = `/runtime/${this.sessionId}/turns/${turn.id}/actions/${action.action_id}/`;
    await this.api.send("POST", path, { body: answer });
  }
}

/** What went wrong; a detail that the message has told already is left out. */
export function sentenceOf(problem) {
  const whole = problem.message.toLowerCase();
  const details = (problem.details ?? []).map(({ message }) => message).filter((each) => each && !whole.includes(each.toLowerCase()));
  return [problem.message, ...details].join(" ");
}
