/** Text that is being written: a reload, or a look at another page, does not lose it. It ends with the tab. */
import { useState } from "../../html.js";

const PREFIX = "aes.studio.draft.";

/** `[text, setText, forget]`; a text that is the `given` one again is no draft. */
export function useDraft(name, given = "") {
  const [text, setText] = useState(() => sessionStorage.getItem(PREFIX + name) ?? given);
  const write = (next) => {
    if (next === given) sessionStorage.removeItem(PREFIX + name);
    else keep(PREFIX + name, next);
    setText(next);
  };
  return [text, write, () => sessionStorage.removeItem(PREFIX + name)];
}

/** Takes what is being written along to another place, unless something is written there. */
export function moveDraft(from, to) {
  const text = sessionStorage.getItem(PREFIX + from);
  if (text === null || sessionStorage.getItem(PREFIX + to)) return;
  keep(PREFIX + to, text);
  sessionStorage.removeItem(PREFIX + from);
}

function keep(name, text) {
  try {
    sessionStorage.setItem(name, text);
  } catch {
    // A tab has room for some megabytes; what is longer lives on the page alone.
    sessionStorage.removeItem(name);
  }
}
