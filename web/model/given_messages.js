/** Messages of a conversation that took place elsewhere: they are of no turn, and have no events. */
import { Turn } from "./conversation.js";

export class GivenMessages {
  #byPlace = new Map();

  has(turn) {
    return [...this.#byPlace.values()].includes(turn);
  }

  forget() {
    this.#byPlace.clear();
  }

  /** Shows a message at its place, once: in the turn of the user's message before it. Returns that. */
  take(conversation, before, message, place) {
    const known = this.#byPlace.get(place);
    if (known) return known;
    let turn = before;
    if (!turn || message.role === "user") {
      turn = Object.assign(new Turn(null), { at: message.timestamp, status: "completed", content: "" });
      // They may all have the same time: what was read before may come behind them.
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
