/** Looks for events in the list: the browser's own search does not know those that are out of sight. */
import { html, useEffect, useState } from "../../../html.js";
import { numberText } from "../../../model/format.js";

const TYPING_MS = 200;

export function FindBar({ wanted, onWanted, shown, all }) {
  const [text, setText] = useState(wanted.text);
  useEffect(() => {
    if (text === wanted.text) return undefined;
    const timer = setTimeout(() => onWanted({ ...wanted, text }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, wanted]);
  return html`
    <div class="find-bar" role="search" aria-label="Find events">
      <input type="search" aria-label="Find in events" placeholder="Find in events, payloads included" spellcheck="false" autocomplete="off"
        value=${text} onInput=${(event) => setText(event.target.value)} />
      <button class="button small" aria-pressed=${wanted.failures} onClick=${() => onWanted({ ...wanted, failures: !wanted.failures })}>Failures</button>
      <span class="muted" role="status">${shown === all ? "" : `${numberText(shown)} of ${numberText(all)}`}</span>
    </div>`;
}
