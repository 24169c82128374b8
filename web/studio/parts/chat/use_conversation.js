/** A session's conversation: what was said, what runs, and what is sent. */
import { allows, read, send, session, write } from "../../../api/client.js";
import { follow, followEvents } from "../../../api/follow.js";
import { sleep } from "../../../api/requests.js";
import { sentenceOf, Talk } from "../../../chat/conversation.js";
import { useEffect, useRef, useState } from "../../../html.js";
import { newestEvents } from "../../../model/events.js";
import { forgetUnsent, GivenMessages, keepUnsent, unsentOf } from "../../../model/messages.js";

const PAINT_MS = 50;
const TOGETHER_MS = 50;
const LAST_MESSAGES = 60;
const PAGE = 200;
const UNSENT = "It is not known whether this message has arrived.";
const ORIGINS = 20;
const PAGES_OF_ORIGIN = 10;
const API = { get: read, send, write, follow };

// The message that a session is to be told as soon as it is shown, `{sessionId, message}`; it belongs to no address.
let due = null;

/** Has a message sent by the conversation of a session that is shown next. */
export function handOver(sessionId, message) {
  keepUnsent(sessionId, message);
  due = { sessionId, message };
}

/**
 * `{turns, state, problem, earlier, say, stop, resolve, …}` of a session. Where it is null the first
 * message begins one: `beginning.sessionOf()` makes it, `beginning.onBegun(id)` shows it.
 */
export function useConversation(sessionId, beginning = {}) {
  const [, repaint] = useState(0);
  const running = useRef(null);
  if (running.current?.sessionId !== sessionId) running.current = new Running(sessionId);
  const current = running.current;
  current.beginning = beginning;
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
    this.conversation.given = new GivenMessages();
    this.state = sessionId ? "loading" : "ready";
    this.problem = "";
    this.earlier = 0;
    // Up to which message they were read, and the position back to which the timeline was.
    this.messagesRead = null;
    this.eventsBefore = undefined;
    this.met = new Set();
    this.isMeeting = false;
    this.accepted = (turn) => forgetUnsent(sessionId, turn);
    this.due = due?.sessionId === sessionId ? due.message : null;
    if (this.due) due = null;
  }

  /** Until it is accepted, a message outlasts a reload and the end of the key. */
  deliver(turn) {
    keepUnsent(this.sessionId, turn);
    return this.sessionId ? super.deliver(turn) : this.begin(turn);
  }

  /** Makes the session, whose page sends the message. */
  async begin(turn) {
    this.changed();
    try {
      const id = await this.beginning.sessionOf();
      // Somebody who has signed out leaves nothing behind.
      if (session.value.state !== "in") return;
      handOver(id, turn);
      forgetUnsent(null, turn);
      this.conversation.drop(turn);
      this.beginning.onBegun(id);
    } catch (problem) {
      Object.assign(turn, { status: "refused", problem: sentenceOf(problem) });
    }
    this.changed();
  }

  discard(turn) {
    forgetUnsent(this.sessionId, turn);
    this.conversation.drop(turn);
    this.changed();
  }

  /** Shows what was not accepted before, and sends what was written for this session elsewhere. */
  takeUp() {
    const { due: next } = this;
    this.due = null;
    const shown = new Set([next, ...this.turns].map((each) => each?.idempotencyKey));
    for (const message of unsentOf(this.sessionId)) {
      if (!shown.has(message.idempotencyKey)) Object.assign(this.conversation.add(message), { status: "refused", problem: UNSENT });
    }
    if (next) this.tell(next);
    this.changed();
  }

  start() {
    if (this.abort.signal.aborted) {
      // Its page was left and is shown again.
      this.messagesRead = null;
      this.abort = new AbortController();
      this.followed.clear();
    }
    if (!this.sessionId) {
      this.takeUp();
      return;
    }
    this.run().catch((problem) => {
      if (this.abort.signal.aborted) return;
      Object.assign(this, { state: "failed", problem: problem.message });
      this.takeUp();
    });
  }

  async run() {
    for (let isBehind = true; isBehind; ) {
      const after = await this.load();
      this.state = "ready";
      this.takeUp();
      isBehind = after !== null && (await this.followSession(after));
    }
  }

  /** Reads what was said since it was last read, with what happened; of very much of it the end. Returns up to where. */
  async load() {
    const { signal } = this.abort;
    // One's own message may be among the new ones: which one it is, is known when it was accepted.
    while (this.turns.some(({ status }) => status === "sending") && !signal.aborted) await sleep(TOGETHER_MS, signal);
    const total = await this.countMessages();
    let from = this.messagesRead;
    if (from === null || total - from > PAGE) {
      from = this.earlier = Math.max(0, total - LAST_MESSAGES);
      this.eventsBefore = undefined;
      this.conversation.forgetEnded();
    }
    const known = new Set(this.turns);
    await this.loadMessages(from);
    this.messagesRead = total;
    const fresh = this.turns.filter((turn) => turn.id && !known.has(turn));
    let after = null;
    if (allows("events:read")) {
      const { next, before } = await this.loadEvents(fresh);
      this.eventsBefore ??= before;
      after = next;
      this.loadInherited(fresh);
    }
    for (const turn of this.turns) if (turn.id && !turn.hasEnded && !this.followed.has(turn.id)) this.followTurn(turn);
    this.changed();
    return after;
  }

  async loadEarlier() {
    const offset = Math.max(0, this.earlier - LAST_MESSAGES);
    const known = new Set(this.turns);
    await this.loadMessages(offset, this.earlier - offset);
    this.earlier = offset;
    if (allows("events:read")) {
      const earlier = this.turns.filter((turn) => turn.id && !known.has(turn));
      const { before } = await this.loadEvents(earlier, { before: this.eventsBefore });
      this.eventsBefore = before;
      this.loadInherited(earlier);
    }
    this.changed();
  }

  /** Tool calls and ends of these turns, read from the newest, or from a position, back to the first of them. */
  async loadEvents(turns, { before: from, sessionId = this.sessionId, pages = Infinity } = {}) {
    const { signal } = this.abort;
    const shown = new Map(turns.map((turn) => [turn.id, turn]));
    const first = turns[0]?.at;
    const page = (query) => read("/events/", { session_id: sessionId, type: "turn.*", limit: PAGE, ...query }, { signal });
    const isEnough = (found) => !first || found.at(-1)?.time < first;
    const { events, next, before } = await newestEvents(page, isEnough, { pages, before: from });
    for (const { turn_id: id, type, data } of events) shown.get(id)?.take(type, data);
    return { next, before };
  }

  /** Calls, sources and files of turns that a fork has from the sessions before it: their events are there. */
  async loadInherited(turns) {
    try {
      let unknown = turns;
      for (let sessionId = this.sessionId, before, left = ORIGINS; left > 0; left -= 1) {
        unknown = unknown.filter(({ hasEnded, isTold }) => hasEnded && !isTold);
        if (!unknown.length) return;
        sessionId = (await read(`/sessions/${sessionId}/`, {}, { signal: this.abort.signal })).forked_from;
        if (!sessionId) return;
        for (const turn of unknown) turn.sessionId = sessionId;
        // It may have gone on for long since.
        before ??= await this.positionAfter(unknown.at(-1));
        await this.loadEvents(unknown, { sessionId, before, pages: PAGES_OF_ORIGIN });
        this.changed();
      }
    } catch (problem) {
      // What was said is there. The session before may be deleted, or somebody else's.
      if (!this.abort.signal.aborted) console.info("The history of a fork is shown without its calls.", problem.message);
    }
  }

  /** The position in the timeline after a turn's last event; undefined where none is left. */
  async positionAfter({ id }) {
    const { events } = await read("/events/", { turn_id: id, order: "desc", limit: 1 }, { signal: this.abort.signal });
    return events.length ? events[0].position + 1 : undefined;
  }

  /** Turns that others begin in this session appear by themselves. Resolves to true when it is to be read anew. */
  followSession(after) {
    return followEvents({ session_id: this.sessionId, type: "turn.*" }, {
      after,
      signal: this.abort.signal,
      onEvent: ({ data: { turn_id: id } }) => {
        if (this.conversation.has(id)) return;
        this.met.add(id);
        // Whatever cannot be read now is read with the next event.
        if (!this.isMeeting) this.meet().catch(() => null);
      },
    });
  }

  /** Shows turns that were not known, with their questions: all that came together at once. */
  async meet() {
    this.isMeeting = true;
    try {
      while (this.met.size && !this.abort.signal.aborted) {
        await sleep(TOGETHER_MS, this.abort.signal);
        await this.load();
        for (const id of this.met) if (!this.conversation.has(id)) this.followTurn(this.conversation.turn(id));
        this.met.clear();
      }
    } finally {
      this.isMeeting = false;
    }
  }
}
