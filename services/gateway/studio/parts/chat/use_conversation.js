/** A session's conversation: what was said, what runs, and what is sent. */
import { get, randomKey, send, write } from "../../api/client.js";
import { ApiError } from "../../api/errors.js";
import { follow } from "../../api/follow.js";
import { allows } from "../../api/session.js";
import { useEffect, useRef, useState } from "../../app/html.js";
import { Conversation } from "../../model/conversation.js";

const PAINT_MS = 50;
const LAST_MESSAGES = 200;
const PAGE = 200;

/** `{turns, state, problem, earlier, say, stop, resolve}` of a session; of none when it is null. */
export function useConversation(sessionId) {
  const [, repaint] = useState(0);
  const running = useRef(null);
  if (running.current?.sessionId !== sessionId) running.current = new Running(sessionId);
  const current = running.current;
  useEffect(() => {
    let timer = 0;
    current.changed = () => {
      timer ||= setTimeout(() => {
        timer = 0;
        repaint((count) => count + 1);
      }, PAINT_MS);
    };
    current.start();
    return () => {
      clearTimeout(timer);
      current.end();
    };
  }, [current]);
  return current;
}

class Running {
  constructor(sessionId) {
    this.sessionId = sessionId;
    this.conversation = new Conversation();
    this.state = sessionId ? "loading" : "ready";
    this.problem = "";
    this.earlier = 0;
    this.abort = new AbortController();
    this.followed = new Set();
    this.changed = () => {};
  }

  get turns() {
    return this.conversation.turns;
  }

  start() {
    if (this.abort.signal.aborted) {
      // Its page was left and is shown again.
      this.abort = new AbortController();
      this.followed.clear();
    }
    if (!this.sessionId) return;
    this.load().catch((problem) => {
      if (this.abort.signal.aborted) return;
      Object.assign(this, { state: "failed", problem: problem.message });
      this.changed();
    });
  }

  end() {
    this.abort.abort();
  }

  async load() {
    const { signal } = this.abort;
    const { total } = await get(`/runtime/${this.sessionId}/messages/`, { limit: 1 }, { signal });
    this.earlier = Math.max(0, total - LAST_MESSAGES);
    await this.loadMessages(this.earlier);
    const after = allows("events:read") ? await this.loadEvents() : null;
    this.state = "ready";
    this.changed();
    for (const turn of this.turns) if (turn.id && !turn.hasEnded) this.followTurn(turn);
    if (after !== null) await this.followSession(after);
  }

  async loadMessages(offset, limit = PAGE) {
    const { signal } = this.abort;
    const { messages } = await get(`/runtime/${this.sessionId}/messages/`, { offset, limit }, { signal });
    this.conversation.takeMessages(messages);
    this.changed();
  }

  async loadEarlier() {
    const offset = Math.max(0, this.earlier - PAGE);
    await this.loadMessages(offset, this.earlier - offset);
    this.earlier = offset;
    this.changed();
  }

  /** Tool calls and ends of what was said before; returns up to where the timeline was read. */
  async loadEvents() {
    const { signal } = this.abort;
    const shown = new Set(this.turns.map(({ id }) => id));
    let page = { next: 0, has_more: true };
    while (page.has_more) {
      page = await get("/events/", { session_id: this.sessionId, type: "turn.*", after: page.next, limit: PAGE }, { signal });
      for (const { turn_id: id, type, data } of page.events) if (shown.has(id)) this.conversation.turn(id).take(type, data);
    }
    return page.next;
  }

  /** Turns that others begin in this session appear by themselves. */
  async followSession(after) {
    const query = { session_id: this.sessionId, type: "turn.*" };
    await follow({
      signal: this.abort.signal,
      open: (lastId) => ({ path: "/events/", query: lastId === null ? { ...query, after } : query }),
      onEvent: ({ data }) => {
        if (this.followed.has(data.turn_id) || this.turns.some(({ status }) => status === "sending")) return;
        if (this.conversation.has(data.turn_id) && this.conversation.turn(data.turn_id).hasEnded) return;
        this.followTurn(this.conversation.turn(data.turn_id));
        get(`/runtime/${this.sessionId}/messages/`, { limit: 1 })
          .then(({ total }) => this.loadMessages(Math.max(0, total - 20), 20))
          .catch(() => null);
      },
    });
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
      await follow({
        signal: this.abort.signal,
        open: () => (turn.id ? known() : begin),
        onOpen: (response) => this.named(turn, response),
        onEvent: ({ event, data }) => {
          const last = turn.take(event, data);
          this.changed();
          return last;
        },
      });
    } catch (problem) {
      Object.assign(turn, { status: turn.id ? "failed" : "refused", problem: sentence(problem) });
    }
    this.changed();
  }

  named(turn, response) {
    const id = response.headers.get("location")?.match(/turns\/([^/]+)\//)?.[1];
    if (!id || turn.id) return;
    this.conversation.name(turn, id);
    this.followed.add(id);
    this.changed();
  }

  /** Sends a message. A repeat after a lost connection has the same key, so that it is one message. */
  say(text, files) {
    const blocks = files.map(({ artifact }) => ({ type: "file", source: { artifact_id: artifact.artifact_id } }));
    const content = blocks.length ? [...(text ? [{ type: "text", text }] : []), ...blocks] : text;
    const turn = this.conversation.add(text, files.map(({ artifact }) => ({ name: artifact.name })));
    turn.at = new Date().toISOString();
    this.changed();
    return this.followTurn(turn, {
      method: "POST",
      path: `/runtime/${this.sessionId}/execute/`,
      body: { content },
      headers: { "idempotency-key": randomKey(), "x-correlation-id": `chat-${randomKey().slice(0, 16)}` },
    });
  }

  async stop(turn) {
    try {
      await write("POST", `/runtime/${this.sessionId}/turns/${turn.id}/cancel/`);
    } catch (problem) {
      // It had ended already.
      if (!(problem instanceof ApiError) || problem.status !== 409) throw problem;
    }
  }

  async resolve(turn, action, answer) {
    const path = `/runtime/${this.sessionId}/turns/${turn.id}/actions/${action.action_id}/`;
    await send("POST", path, { body: answer });
  }
}

function sentence(problem) {
  const details = (problem.details ?? []).map(({ message }) => message).filter(Boolean);
  return [problem.message, ...details].join(" ");
}
