/** Which part of a list is shown, and the way to the next one. */
import { html } from "../../html.js";
import { numberText } from "../../model/format.js";

/** Entries of a list that the service counts. */
const COUNTED = 10_000;

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
