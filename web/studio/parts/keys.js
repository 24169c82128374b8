/** Forms for new keys and connections, with a choice of scopes. */
import { session, write } from "../../api/client.js";
import { html, useState } from "../../html.js";
import { ExpiryField, expiryOf, Field, FormDialog, SelectField, TextField } from "./forms.js";

/** The form for a new API key. */
export function NewKey({ onMade, onClose }) {
  const { me } = session.value;
  const [name, setName] = useState("");
  // Scopes of the whole installation must be chosen explicitly.
  const [scopes, setScopes] = useState(me.scopes.filter((scope) => !scope.startsWith("installation:")));
  const [end, setEnd] = useState({ lifetime: "90", day: "" });
  const [limit, setLimit] = useState("");
  const submit = async () => {
    const body = { name: name.trim(), scopes, expires_at: expiryOf(end.lifetime, end.day), rate_limit: limit ? Number(limit) : undefined };
    onMade(await write("POST", "/api-keys/", body));
  };
  return html`
    <${FormDialog} title="New key" action="Create" shown=${["name", "expires_at", "rate_limit"]} disabled=${scopes.length === 0} onSubmit=${submit} onClose=${onClose}>
      ${(problem) => html`
        <${TextField} label="Name" name="name" required maxlength="200" problem=${problem} value=${name} onValue=${setName} />
        <div class="form-row">
          <${ExpiryField} ...${end} onChange=${setEnd} problem=${problem} />
          <${TextField} label="Requests per minute" name="rate_limit" type="number" min="1" max="1000000" problem=${problem}
            placeholder=${me.rate_limit ?? "no limit"} value=${limit} onValue=${setLimit} />
        </div>
        <${ScopePicker} offered=${me.scopes} chosen=${scopes} onChange=${setScopes} />`}
    <//>`;
}

/** Scopes to choose from, grouped by area. */
function ScopePicker({ offered, chosen, onChange }) {
  const areas = Map.groupBy(offered, (scope) => scope.split(":")[0]);
  const toggle = (scope) => onChange(chosen.includes(scope) ? chosen.filter((each) => each !== scope) : [...chosen, scope]);
  return html`
    <fieldset>
      <legend>Scopes</legend>
      <p class="scope-picks">
        <button type="button" class="button small" onClick=${() => onChange(offered)}>All</button>
        <button type="button" class="button small" onClick=${() => onChange(offered.filter((scope) => scope.endsWith(":read")))}>Read only</button>
        <button type="button" class="button small" onClick=${() => onChange([])}>None</button>
        <span class="muted">${chosen.length} of ${offered.length}</span>
      </p>
      <div class="scope-areas">
        ${[...areas].map(([area, scopes]) => html`
          <div key=${area}>
            ${scopes.map((scope) => html`
              <label key=${scope} class="check"><input type="checkbox" checked=${chosen.includes(scope)} onChange=${() => toggle(scope)} /><code>${scope}</code></label>`)}
          </div>`)}
      </div>
    </fieldset>`;
}

const SHOWN = ["name", "agent_id", "allowed_origins", "quota", "expires_at"];

/** The form for a new connection: agent, pages, quota and expiry. */
export function NewConnection({ agents, agentId, onMade, onClose }) {
  const [agent, setAgent] = useState(agentId ?? agents[0]?.id ?? "");
  const [name, setName] = useState("");
  const [origins, setOrigins] = useState("");
  const [quota, setQuota] = useState("");
  const [end, setEnd] = useState({ lifetime: "", day: "" });
  const submit = async () => {
    const allowed = origins.split(/[\s,]+/).filter(Boolean);
    const body = { agent_id: agent, name: name.trim(), allowed_origins: allowed, quota: quota ? Number(quota) : undefined };
    onMade(await write("POST", "/connections/", { ...body, expires_at: expiryOf(end.lifetime, end.day) }));
  };
  return html`
    <${FormDialog} title="New connection" action="Create" shown=${SHOWN} disabled=${!agent} onSubmit=${submit} onClose=${onClose}>
      ${(problem) => html`
        <${SelectField} label="Agent" name="agent_id" problem=${problem} value=${agent} onValue=${setAgent} options=${agents.map(({ id, name: title }) => [id, title])} />
        <${TextField} label="Name" name="name" maxlength="200" hint="Defaults to the agent's name." problem=${problem} value=${name} onValue=${setName} />
        <${Field} label="Allowed origins" name="allowed_origins" hint="One per line, such as https://example.com. Only these pages can use the key." problem=${problem}>
          ${(given) => html`<textarea class="code" rows="3" required spellcheck="false" placeholder="https://example.com" value=${origins} onInput=${(event) => setOrigins(event.target.value)} ...${given}></textarea>`}
        <//>
        <div class="form-row">
          <${TextField} label="Requests per minute" name="quota" type="number" min="1" max="1000000" hint="All visitors share this limit." problem=${problem} value=${quota} onValue=${setQuota} />
          <${ExpiryField} ...${end} never onChange=${setEnd} problem=${problem} />
        </div>`}
    <//>`;
}
