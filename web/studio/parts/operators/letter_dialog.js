/** One dead letter in full: cause, headers and payload, of which secrets are left out. */
import { get } from "../../../api/client.js";
import { allows, session } from "../../../api/session.js";
import { html } from "../../../html.js";
import { hrefOf } from "../../router.js";
import { momentText, sizeText } from "../../../model/format.js";
import { Dialog } from "../dialog.js";
import { JsonView } from "../json_view.js";
import { Problem } from "../problem.js";
import { useLoaded } from "../use_loaded.js";

/** `onReplay` is null where it may not, or need not, be replayed. */
export function LetterDialog({ letter, onReplay, onClose }) {
  const { value, problem } = useLoaded((signal) => get(`/operations/dead-letters/${letter.id}/`, {}, { signal }), letter.id);
  const shown = value ?? letter;
  return html`
    <${Dialog} title="Dead letter" wide onClose=${onClose}>
      <dl class="facts">
        <dt>Letter</dt><dd><code>${shown.id}</code></dd>
        <dt>Type</dt><dd>${shown.type ?? "none"}</dd>
        <dt>Cause</dt><dd><b>${shown.cause.code}</b> <span class="whole-text">${shown.cause.message}</span></dd>
        <dt>Attempts</dt><dd>${shown.attempts ?? "unknown"}</dd>
        <dt>Given up</dt><dd>${momentText(shown.dead_since)} by ${shown.consumer}</dd>
        <dt>Came from</dt><dd>${shown.source_topic}${value?.offset != null && `, partition ${value.partition}, offset ${value.offset}`}</dd>
        <dt>Correlation id</dt><dd><${Correlation} letter=${shown} /></dd>
        <dt>Company</dt><dd>${shown.company_id ?? "unknown"}</dd>
      </dl>
      <${Problem} of=${problem} />
      ${value && html`
        <h3>Payload <small class="muted">${sizeText(value.payload_bytes)}</small></h3>
        ${value.payload.note ? html`<p class="muted">Not shown. ${value.payload.note}</p>` : html`<${JsonView} label="Payload" value=${value.payload.value} />`}
        <h3>Headers</h3>
        <${JsonView} label="Headers" value=${value.headers} />`}
      ${onReplay && html`<div class="dialog-actions"><button class="button primary" onClick=${onReplay}>Replay</button></div>`}
    <//>`;
}

/** The way to the timeline, which has the events of one's own company. */
export function Correlation({ letter: { correlation_id: id, company_id: company } }) {
  if (!id) return html`<span class="muted">no correlation id</span>`;
  const isOwn = company === session.value.me?.company_id && allows("events:read");
  return isOwn ? html`<a href=${hrefOf("timeline/", { correlation_id: id })}>${id}</a>` : html`<code>${id}</code>`;
}
