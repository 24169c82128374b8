/** The operators' page: health of the services, consumer lag, and dead-lettered messages. */
import { allows, session } from "../../api/client.js";
import { html } from "../../html.js";
import { useStore } from "../../store.js";
import { DeadLetters } from "../parts/operators/dead_letters.js";
import { Health, Lag } from "../parts/operators/state.js";
import { PageHead } from "../parts/views.js";

export default function Operators({ query }) {
  const { me } = useStore(session);
  const isWhole = allows("installation:read");
  return html`
    <div class="page operators">
      <${PageHead} title="Operators" aside=${html`<span class="muted">${isWhole ? "the whole installation" : `${me.company_name} only`}</span>`} />
      <${Health} isWhole=${isWhole} />
      ${isWhole && html`<${Lag} />`}
      <${DeadLetters} query=${query} isWhole=${isWhole} />
    </div>`;
}
