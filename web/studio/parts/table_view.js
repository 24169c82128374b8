/** The first rows of a sheet; `row_count` is how many it has, where that is known. */
import { html } from "../../html.js";
import { numberText } from "../../model/format.js";

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
