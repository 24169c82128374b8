/** Events with a text anywhere in them, and failures alone. */
import { isFailure } from "./event_text.js";

export const NO_WISH = { text: "", failures: false };

// Of each event what is looked through, since the same events are looked through at every letter.
const texts = new WeakMap();

function textOf(event) {
  let text = texts.get(event);
  if (text === undefined) texts.set(event, (text = JSON.stringify(event).toLowerCase()));
  return text;
}

/** Those that have every word of the wish, wherever. */
export function found(events, { text, failures }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => JSON.stringify(word).slice(1, -1));
  if (!words.length && !failures) return events;
  return events.filter((event) => (!failures || isFailure(event)) && words.every((word) => textOf(event).includes(word)));
}
