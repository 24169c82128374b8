/** Turns that run or have failed, each with the way to what happened. */
import { html } from "../../../html.js";
import { hrefOf } from "../../router.js";
import { durationText } from "../../../model/format.js";
import { StatusChip } from "../chips.js";

export const MOST = 8;

/** `rest` is where those are that are not listed. */
export function TurnList({ title, turns, names, now, empty, rest }) {
  return html`
    <section class="card turn-list" aria-label=${title}>
      <h2>${title}</h2>
      ${turns.length === 0 && html`<p class="muted">${empty}</p>`}
      <ul>
        ${turns.slice(0, MOST).map((turn) => html`
          <li key=${turn.id}>
            <p>
              <${StatusChip} status=${turn.status} />
              <b>${names.get(turn.sessionId) ?? "Session"}</b>
              <span class="muted">${turn.ended ? `${durationText(now - turn.ended)} ago` : `for ${durationText(Math.max(0, now - turn.begun))}`}</span>
              <a href=${hrefOf("timeline/", { turn_id: turn.id })}>Timeline</a>
              <a href=${hrefOf(`chat/${turn.sessionId}/`)}>Conversation</a>
            </p>
            ${turn.error && html`<p class="turn-error">${turn.error}</p>`}
          </li>`)}
      </ul>
      ${turns.length > MOST && html`<p><a href=${rest}>and ${turns.length - MOST} more</a></p>`}
    </section>`;
}
