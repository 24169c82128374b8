/** A session's conversation: its messages, running turns, and sending. */
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
const UNSENT = "This message may or may not have been delivered.";
const ORIGINS = 20;
const PAGES_OF_ORIGIN = 10;
const API = { get: read, send, write, follow };

// The message for the session that is opened next, as `{sessionId, message}`. It isn't part of the address.
let due = null;

/** Passes a message to the conversation of the session that is opened next. */
export function handOver(sessionId, message) {
  keepUnsent(sessionId, message);
  due = { sessionId, message };
}

/**
 * Returns a session's `{turns, state, problem, earlier, say, stop, resolve, …}`. Without a session, the first message
 * creates one with `beginning.sessionOf()`, and `beginning.onBegun(id)` opens it.
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
    // The number of messages read, and the earliest position to which the timeline was read.
    this.messagesRead = null;
    this.eventsBefore = undefined;
    this.met = new Set();
    this.isMeeting = false;
    this.accepted = (turn) => forgetUnsent(sessionId, turn);
    this.due = due?.sessionId === sessionId ? due.message : null;
    if (this.due) due = null;
  }

  /** Sends a message. Until it's accepted, it survives a reload and an expired key. */
  deliver(turn) {
    keepUnsent(this.sessionId, turn);
    return this.sessionId ? super.deliver(turn) : this.begin(turn);
  }

  /** Creates the session. The session's page then sends the message. */
  async begin(turn) {
    this.changed();
    try {
      const id = await this.beginning.sessionOf();
      // After the user has signed out, no draft is kept.
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

  /** Shows messages that weren't accepted, and sends the message that was passed to this session. */
  sendDue() {
    const { due: next } = this;
    this.due = null;
    const shown = new Set([next, ...this.turns].map((each) => each?.idempotencyKey));
    for (const message of unsentOf(this.sessionId)) {
      if (!shown.has(message.idempotencyKey)) Object.assign(this.conversation.add(message), { status: "refused", problem: UNSENT });
    }
    if (next) this.sendMessage(next);
    this.changed();
  }

  start() {
    if (this.abort.signal.aborted) {
      // The user left the page and has opened it again.
      this.messagesRead = null;
      this.abort = new AbortController();
      this.followed.clear();
    }
    if (!this.sessionId) {
      this.sendDue();
      return;
    }
    this.run().catch((problem) => {
      if (this.abort.signal.aborted) return;
      Object.assign(this, { state: "failed", problem: problem.message });
      this.sendDue();
    });
  }

  async run() {
    for (let isBehind = true; isBehind; ) {
      const after = await this.load();
      this.state = "ready";
      this.sendDue();
      isBehind = after !== null && (await this.followSession(after));
    }
  }

  /**
   * Reads messages and events since the last read, or only the newest of very many. Returns the position from which
   * to follow events, or null if the key may not read them.
   */
  async load() {
    const { signal } = this.abort;
    // The user's own message may be among the new ones, but it's only recognized once it's accepted.
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

  /** Reads these turns' events, from the newest one or from a position back to the beginning of the first turn. */
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

  /** Reads the calls, sources and files that a fork inherits, whose events belong to earlier sessions. */
  async loadInherited(turns) {
    try {
      let unknown = turns;
      for (let sessionId = this.sessionId, before, left = ORIGINS; left > 0; left -= 1) {
        unknown = unknown.filter(({ hasEnded, hasEvents }) => hasEnded && !hasEvents);
        if (!unknown.length) return;
        sessionId = (await read(`/sessions/${sessionId}/`, {}, { signal: this.abort.signal })).forked_from;
        if (!sessionId) return;
        for (const turn of unknown) turn.sessionId = sessionId;
        // The original session may have continued long after the fork.
        before ??= await this.positionAfter(unknown.at(-1));
        await this.loadEvents(unknown, { sessionId, before, pages: PAGES_OF_ORIGIN });
        this.changed();
      }
    } catch (problem) {
      // The messages are shown anyway. The original session may have been deleted or belong to someone else.
      if (!this.abort.signal.aborted) console.info("Couldn't load the original session's calls. The fork's history is shown without them.", problem.message);
    }
  }

  /** Resolves to the position after a turn's last event, or to undefined if there are none. */
  async positionAfter({ id }) {
    const { events } = await read("/events/", { turn_id: id, order: "desc", limit: 1 }, { signal: this.abort.signal });
    return events.length ? events[0].position + 1 : undefined;
  }

  /** Shows turns that others start in this session. Resolves to true when everything has to be read again. */
  followSession(after) {
    return followEvents({ session_id: this.sessionId, type: "turn.*" }, {
      after,
      signal: this.abort.signal,
      onEvent: ({ data: { turn_id: id } }) => {
        if (this.conversation.has(id)) return;
        this.met.add(id);
        // A failed read is retried with the next event.
        if (!this.isMeeting) this.meet().catch(() => null);
      },
    });
  }

  /** Shows new turns with their questions. Reads once for all turns that arrive together. */
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
