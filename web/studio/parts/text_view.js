/** The beginning of a text file, as text. */
import { readText } from "../../api/download.js";
import { html } from "../../html.js";
import { Problem } from "./problem.js";
import { useLoaded } from "./use_loaded.js";

const MOST_BYTES = 300_000;

export function TextView({ path, query, label }) {
  const { value, problem } = useLoaded((signal) => readText(path, MOST_BYTES, { query, signal }), path);
  if (problem) return html`<${Problem} of=${problem} />`;
  if (!value) return html`<p class="empty">Reading the text…</p>`;
  return html`
    <pre class="json" tabindex="0" role="region" aria-label=${label}>${value.text}</pre>
    ${!value.isWhole && html`<p class="muted">This is its beginning. Download it for all of it.</p>`}`;
}
