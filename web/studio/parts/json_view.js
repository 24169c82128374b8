/** JSON as coloured text; every part of it is a text node. */
import { html, useMemo } from "../../html.js";

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
const MOST_COLOURED = 100_000;

export function JsonView({ value, label }) {
  const parts = useMemo(() => coloured(JSON.stringify(value, null, 2) ?? ""), [value]);
  return html`<pre class="json" tabindex="0" role="region" aria-label=${label}>${parts}</pre>`;
}

function coloured(text) {
  if (text.length > MOST_COLOURED) return text;
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    const [whole, string, colon, word] = match;
    const kind = colon ? "name" : string ? "string" : word ? "word" : "number";
    parts.push(html`<span class=${kind}>${colon ? string : whole}</span>`);
    if (colon) parts.push(colon);
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts;
}
