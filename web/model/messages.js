/** Messages without a turn: imported messages, and messages that haven't been accepted yet. */
import { Turn } from "../chat/conversation.js";

/** Messages of an imported conversation, without turns and events. */
export class GivenMessages {
  #byPlace = new Map();

  has(turn) {
    return [...this.#byPlace.values()].includes(turn);
  }

  forget() {
    this.#byPlace.clear();
  }

  /** Inserts a message at its position, unless it's there already. Returns its turn, which a user message begins. */
  take(conversation, before, message, place) {
    const known = this.#byPlace.get(place);
    if (known) return known;
    let turn = before;
    if (!turn || message.role === "user") {
      turn = Object.assign(new Turn(null), { at: message.timestamp, status: "completed", content: "" });
      // All messages may have the same time, so messages that were read earlier may belong after these.
      const [, next] = [...this.#byPlace].filter(([at]) => at > place).sort(([a], [b]) => a - b)[0] ?? [];
      conversation.turns.splice(next ? conversation.turns.indexOf(next) : conversation.turns.length, 0, turn);
    }
    this.#byPlace.set(place, turn);
    add(turn, message);
    return turn;
  }
}

function add(turn, { id, role, content, content_blocks: blocks = [] }) {
  if (role === "user") {
    Object.assign(turn, { content, messageId: id });
    turn.takeBlocks(blocks);
  } else if (role === "assistant") {
    const asked = blocks.filter(({ type }) => type === "tool_call");
    if (!asked.length) turn.answer = [turn.answer, content].filter(Boolean).join("\n\n");
    else {
      const step = turn.stepOf(turn.steps.length + 1);
      step.text = content;
      for (const { id: call, name, arguments: given } of asked) {
        Object.assign(turn.callOf(step.number, call, name), { arguments: given, status: "unknown" });
      }
    }
  } else {
    const { call_id: called } = blocks.find(({ type }) => type === "tool_result") ?? {};
    const call = turn.calls.find((each) => each.id === called);
    if (call) Object.assign(call, { status: "completed", output: content });
  }
}

const PREFIX = "aes.studio.unsent.";
// The key for messages whose session doesn't exist yet.
const NEW = "new";

/** Messages as `{idempotencyKey, at, content, blocks, attachments}`, in the order in which they were written. */
export function unsentOf(sessionId) {
  return JSON.parse(sessionStorage.getItem(PREFIX + (sessionId ?? NEW))) ?? [];
}

export function keepUnsent(sessionId, { idempotencyKey, at, content, blocks, attachments }) {
  put(sessionId, [...others(sessionId, idempotencyKey), { idempotencyKey, at, content, blocks, attachments }]);
}

export function forgetUnsent(sessionId, { idempotencyKey }) {
  put(sessionId, others(sessionId, idempotencyKey));
}

function others(sessionId, key) {
  return unsentOf(sessionId).filter(({ idempotencyKey }) => idempotencyKey !== key);
}

function put(sessionId, messages) {
  const name = PREFIX + (sessionId ?? NEW);
  try {
    if (messages.length) sessionStorage.setItem(name, JSON.stringify(messages));
    else sessionStorage.removeItem(name);
  } catch {
    // Session storage is limited to a few megabytes, so longer messages don't survive a reload.
  }
}
