/** Building blocks of pages: icons, headings, errors, chips, tables, and formatted values. */
import { readText } from "../../api/client.js";
import { html, iconOf, SHAPES, useMemo } from "../../html.js";
import { numberText } from "../../model/format.js";
import { hrefOf } from "../router.js";
import { useLoaded } from "./hooks.js";

/** The icons of the studio. */
export const Icon = iconOf({
  ...SHAPES,
  logo: "M4 5h10M8 12h12M12 19h7",
  menu: "M4 6h16M4 12h16M4 18h16",
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  timeline: "M4 6h9M8 12h12M12 18h6",
  agents: "M12 4v3M6 7h12v11H6zM9.5 12h.01M14.5 12h.01M10 15h4",
  knowledge: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM9 8h6M9 12h6",
  files: "M6 3h8l4 4v14H6zM14 3v4h4",
  keys: "M14 10a4 4 0 1 0-3.5 4L12 15.500h2V18h2.500v2.500H20V17l-5.500-5.500z",
  connections: "M9 12h6M10 7H7a5 5 0 0 0 0 10h3M14 7h3a5 5 0 0 1 0 10h-3",
  secrets: "M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3M12 14.500v2",
  usage: "M4 20V10M10 20V4M16 20v-7M21 20H3",
  operators: "M3 12h4l3-7 4 14 3-7h4",
  webhooks: "M13 3L5 13.500h5.500L10 21l9-11.500h-6z",
  upload: "M12 16V5M7 10l5-5 5 5M5 20h14",
  download: "M12 4v11M7 10l5 5 5-5M5 20h14",
  search: "M10.500 4a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM15.500 15.500L20 20",
  chevron: "M9 6l6 6-6 6",
  sun: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.400 1.400M17.600 17.600L19 19M19 5l-1.400 1.400M6.400 17.600L5 19",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  live: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM6.300 6.300a8 8 0 0 0 0 11.400M17.700 6.300a8 8 0 0 1 0 11.400",
  pause: "M8 5v14M16 5v14",
  tool: "M14.500 6a4 4 0 0 0-5.200 5.200L4 16.500V20h3.500l5.300-5.300A4 4 0 0 0 18 9.500L15.500 12 12 8.500z",
  plus: "M12 5v14M5 12h14",
  check: "M5 12l5 5L19 7",
});

/** A page's heading, back link and actions. */
export function PageHead({ title, back, aside, children }) {
  return html`
    ${back && html`<p class="back"><a href=${hrefOf(back.path)}>${back.label}</a></p>`}
    <div class="page-head">
      <h1 tabindex="-1">${title}</h1>
      ${aside}
      <span class="spacer"></span>
      ${children}
    </div>`;
}

/** An error. `shown`: the names of fields that display their own errors. */
export function Problem({ of: problem, shown = [] }) {
  const details = problem?.details?.filter(({ loc }) => !shown.includes(String(loc[0]))) ?? [];
  const elsewhere = problem?.details?.length > 0 && details.length === 0;
  return html`
    <div role="alert">
      ${problem && html`
        <div class="problem">
          ${elsewhere ? "Some fields are invalid. See above." : problem.message}
          ${details.length > 0 && html`
            <ul>${details.map(({ loc, message, hint }, at) => html`
              <li key=${at}>${loc.length > 0 && html`<code>${loc.join(".")}</code> `}${message}${hint && html` <em>${hint}</em>`}</li>`)}</ul>`}
        </div>`}
    </div>`;
}

const LOOKS = {
  completed: "good", ready: "good", delivered: "good", enabled: "good", active: "good",
  failed: "bad", failing: "bad", revoked: "bad", expired: "bad", unreachable: "bad", unavailable: "bad",
  running: "busy", pending: "busy", "being replaced": "busy", degraded: "busy", "not ready": "busy",
};

/** A status. Its color only repeats the word. */
export function StatusChip({ status }) {
  return html`<span class=${`chip ${LOOKS[status] ?? ""}`}>${status}</span>`;
}

/** A service's name in its color. */
export function ServiceChip({ service }) {
  return html`<span class=${`service of-${service}`}>${service}</span>`;
}

/**
 * A table. `columns` are `{label, cell(item), className?}`. A column without a label holds buttons or checkboxes. Roles
 * are explicit, since the card layout drops the implicit roles of tables.
 */
export function DataTable({ label, columns, items, keyOf, empty = "Nothing here yet.", rowClass = () => "" }) {
  if (items.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`
    <table class="data-table" role="table" aria-label=${label}>
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map(({ label: name, className = "" }, at) => html`<th key=${at} role="columnheader" scope="col" class=${className}>${name || html`<span class="for-screen-readers">${className === "check" ? "Selected" : "Actions"}</span>`}</th>`)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${items.map((item) => html`
          <tr key=${keyOf(item)} role="row" class=${rowClass(item)}>
            ${columns.map(({ label: name, cell, className = "" }, at) => html`<td key=${at} role="cell" class=${name || className ? className : "actions"} data-label=${name || undefined}>${cell(item)}</td>`)}
          </tr>`)}
      </tbody>
    </table>`;
}

/** The service counts the entries of a list only up to this number. */
const COUNTED = 10_000;

/** The shown range of a list, and buttons to page through it. */
export function Paging({ offset, shown, total, limit, onOffset }) {
  if (total <= limit && offset === 0) return null;
  const isLast = total === COUNTED ? shown < limit : offset + shown >= total;
  return html`
    <div class="paging">
      <button class="button small" disabled=${offset === 0} onClick=${() => onOffset(Math.max(0, offset - limit))}>Previous</button>
      <span>${shown ? `${numberText(offset + 1)} to ${numberText(offset + shown)}` : "none"} of ${numberText(total)}${total === COUNTED ? " or more" : ""}</span>
      <button class="button small" disabled=${isLast} onClick=${() => onOffset(offset + limit)}>Next</button>
    </div>`;
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;
const MOST_COLOURED = 100_000;

/** Syntax-colored JSON. It's built from text nodes only, so that nothing is parsed as HTML. */
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

/** The first rows of a sheet. `row_count` is the total, if known. */
export function TableView({ sheet }) {
  const { name, headers, rows, row_count: total } = sheet;
  return html`
    <figure class="table-view">
      <figcaption>${name} <span class="muted">${total === undefined ? `the first ${numberText(rows.length)} rows` : `${numberText(rows.length)} of ${numberText(total)} rows`}</span></figcaption>
      <div class="table-scroll" tabindex="0" role="region" aria-label=${name}>
        <table>
          <thead><tr>${headers.map((header, at) => html`<th key=${at} scope="col">${header}</th>`)}</tr></thead>
          <tbody>${rows.map((row, at) => html`<tr key=${at}>${row.map((cell, column) => html`<td key=${column}>${cell === null ? "" : String(cell)}</td>`)}</tr>`)}</tbody>
        </table>
      </div>
    </figure>`;
}

const MOST_BYTES = 300_000;

/** The beginning of a text file. */
export function TextView({ path, query, label }) {
  const { value, problem } = useLoaded((signal) => readText(path, MOST_BYTES, { query, signal }), path);
  if (problem) return html`<${Problem} of=${problem} />`;
  if (!value) return html`<p class="empty">Loading the text…</p>`;
  return html`
    <pre class="json" tabindex="0" role="region" aria-label=${label}>${value.text}</pre>
    ${!value.isWhole && html`<p class="muted">This is the beginning of the file. Download it to see the rest.</p>`}`;
}
