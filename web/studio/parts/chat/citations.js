/** The passages that an answer rests on. */
import { allows } from "../../../api/session.js";
import { html, useState } from "../../../html.js";
import { hrefOf } from "../../router.js";
import { Dialog } from "../dialog.js";

/** As much of one as finds it in its file, and as an address may hold. */
const PASSAGE = 400;

export function Citations({ citations }) {
  const [open, setOpen] = useState(null);
  return html`
    <ul class="citations" aria-label="Sources">
      ${citations.map((citation, at) => html`
        <li key=${at}><button onClick=${() => setOpen(citation)}><b>${at + 1}</b> ${placeOf(citation)}</button></li>`)}
    </ul>
    ${open && html`
      <${Dialog} title=${placeOf(open)} onClose=${() => setOpen(null)}>
        <p class="muted">${[open.knowledge_base_name, open.score != null && `score ${open.score.toFixed(2)}`].filter(Boolean).join(", ")}</p>
        <blockquote class="passage">${open.passage}</blockquote>
        ${open.file_id && allows("files:read") && html`<p><a href=${hrefOf(`files/${open.file_id}/`, { passage: open.passage.slice(0, PASSAGE) })}>Open the file</a></p>`}
      <//>`}`;
}

function placeOf({ file_name: name, page, row }) {
  return [name ?? "Passage", page != null && `page ${page}`, row != null && `row ${row}`].filter(Boolean).join(", ");
}
