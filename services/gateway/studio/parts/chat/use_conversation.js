/** A session's conversation: what was said, what runs, and what is sent. */
import { read, send, write } from "../../api/client.js";
import { follow } from "../../api/follow.js";
import { allows } from "../../api/session.js";
import { useEffect, useRef, useState } from "../../app/html.js";
import { newestEvents } from "../../model/newest_events.js";
import { Talk } from "../../model/talk.js";

const PAINT_MS = 50;
const LAST_MESSAGES = 60;
const PAGE = 200;
const API = { get: read, send, write, follow };

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

class Running extends Talk {
  constructor(sessionId) {
    super(API, sessionId);
    this.state = sessionId ? "loading" : "ready";
    this.problem = "";
    this.earlier = 0;
    // The position back to which the timeline was read.
    this.eventsBefore = undefined;
  }

  start() {
    if (this.abort.signal.aborted) {
      // Its page was left and is shown again.
      this.eventsBefore = undefined;
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

  async load() {
    this.earlier = await this.loadLastMessages(LAST_MESSAGES);
    const after = allows("events:read") ? await this.loadEvents() : null;
    this.state = "ready";
    this.changed();
    for (const turn of this.turns) if (turn.id && !turn.hasEnded) this.followTurn(turn);
    if (after !== null) await this.followSession(after);
  }

  async loadEarlier() {
    const offset = Math.max(0, this.earlier - LAST_MESSAGES);
    const known = new Set(this.turns);
    await this.loadMessages(offset, this.earlier - offset);
    this.earlier = offset;
    if (allows("events:read")) await this.loadEvents(this.turns.filter((turn) => !known.has(turn)));
    this.changed();
  }

  /** Tool calls and ends of what is shown, read from the newest back to the first of it; returns up to where. */
  async loadEvents(turns = this.turns) {
    const { signal } = this.abort;
    const shown = new Map(turns.map((turn) => [turn.id, turn]));
    const first = turns[0]?.at;
    const page = (query) => read("/events/", { session_id: this.sessionId, type: "turn.*", limit: PAGE, ...query }, { signal });
    const isEnough = (found) => !first || found.at(-1)?.time < first;
    const { events, next, before } = await newestEvents(page, isEnough, { pages: Infinity, before: this.eventsBefore });
    this.eventsBefore = before;
    for (const { turn_id: id, type, data } of events) shown.get(id)?.take(type, data);
    return next;
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
        this.loadLastMessages(20).catch(() => null);
      },
    });
  }
}
