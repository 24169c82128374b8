/** What one sees first: who one is here, and what one may do. */
import { session } from "../api/session.js";
import { html } from "../app/html.js";
import { useStore } from "../app/store.js";
import { momentText } from "../model/format.js";

export function Overview() {
  const { me } = useStore(session);
  return html`
    <div class="page">
      <h1 tabindex="-1">Overview</h1>
      <section class="card" aria-labelledby="overview-you">
        <h2 id="overview-you">${me.user_name} at ${me.company_name}</h2>
        <dl class="facts">
          <dt>Limit</dt><dd>${me.rate_limit ? `${me.rate_limit} requests a minute` : "no limit of requests"}</dd>
          <dt>Key ends</dt><dd>${me.expires_at ? momentText(me.expires_at) : "never"}</dd>
          <dt>Scopes</dt><dd class="scopes">${me.scopes.map((scope) => html`<code key=${scope}>${scope}</code> `)}</dd>
        </dl>
      </section>
    </div>`;
}
