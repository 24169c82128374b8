/** Rows of things with columns; where it is narrow each row is a card. */
import { html } from "../../html.js";

/** `columns` are `{label, cell(item), className?}`; one without a label holds buttons, or what chooses rows. Roles are named, since cards lose those of tables. */
export function DataTable({ label, columns, items, keyOf, empty = "Nothing here yet.", rowClass = () => "" }) {
  if (items.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`
    <table class="data-table" role="table" aria-label=${label}>
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map(({ label: name, className = "" }, at) => html`<th key=${at} role="columnheader" scope="col" class=${className}>${name || html`<span class="for-screen-readers">${className === "check" ? "Chosen" : "Actions"}</span>`}</th>`)}
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
