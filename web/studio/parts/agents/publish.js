/** Access to an agent for colleagues, for web pages with its own key, and for web pages with a connection. */
import { allows, get, write } from "../../../api/client.js";
import { html, useId, useState } from "../../../html.js";
import { hrefOf } from "../../router.js";
import { CopyButton, Field } from "../forms.js";
import { useAction, useLoaded } from "../hooks.js";
import { NewConnection } from "../keys.js";
import { Icon, Problem } from "../views.js";

const SHOWN = ["allowed_origins"];

export function Publish({ agent, onSaved }) {
  const [isShared, setShared] = useState(agent.is_shared);
  const [isPublic, setPublic] = useState(agent.is_public);
  const [origins, setOrigins] = useState(agent.allowed_origins.join("\n"));
  const [said, setSaid] = useState("");
  const { busy, problem, run } = useAction(async () => {
    const body = { is_shared: isShared, is_public: isPublic, allowed_origins: origins.split(/[\s,]+/).filter(Boolean) };
    onSaved(await write("PATCH", `/agent/${agent.id}/`, body));
    setSaid("Updated.");
  });
  const submit = (event) => (event.preventDefault(), setSaid(""), run());
  return html`
    <section class="card publish" aria-labelledby="publish">
      <h2 id="publish">Publish</h2>
      <form class="form" onSubmit=${submit}>
        <${Check} label="Everyone in the company can use it" checked=${isShared} onChange=${setShared} />
        <${Check} label="Web pages can use it with its own key" checked=${isPublic} onChange=${setPublic} />
        ${isPublic && html`
          <${Field} label="Allowed origins" name="allowed_origins" hint="One per line, such as https://example.com. Only these pages can use its key." problem=${problem}>
            ${(given) => html`<textarea class="code" rows="2" spellcheck="false" placeholder="https://example.com" value=${origins} onInput=${(event) => setOrigins(event.target.value)} ...${given}></textarea>`}
          <//>`}
        <${Problem} of=${problem} shown=${isPublic ? SHOWN : []} />
        <p class="form-actions">
          <button class="button" disabled=${busy || !allows("agents:write")}>Update access</button>
          <span role="status">${said}</span>
        </p>
      </form>
      ${agent.is_public && agent.allowed_origins.length > 0 && html`<${OwnSnippet} agentKey=${agent.agent_key} />`}
      ${allows("keys:read") && html`<${Connections} agent=${agent} />`}
    </section>`;
}

function OwnSnippet({ agentKey }) {
  const text = `<script src="${location.origin}/widget.js" data-agent-key="${agentKey}" defer></script>`;
  return html`
    <div class="snippet">
      <pre class="json" tabindex="0" role="region" aria-label="Snippet with the agent's key">${text}</pre>
      <p class="form-actions"><${CopyButton} text=${text} label="Copy snippet" /></p>
    </div>`;
}

/** The agent's connections, which have their own scopes, quota and expiry. */
function Connections({ agent }) {
  const { value: page, problem, refresh } = useLoaded((signal) => get("/connections/", { limit: 200 }, { signal }), "", { changes: "connection" });
  const [making, setMaking] = useState(false);
  const own = (page?.connections ?? []).filter(({ agent_id: id }) => id === agent.id);
  return html`
    <div class="section-head">
      <h3>Connections</h3>
      ${allows("keys:write") && html`<button class="button small" onClick=${() => setMaking(true)}><${Icon} name="plus" />New connection</button>`}
      <a href=${hrefOf("connections/")}>All connections</a>
    </div>
    <${Problem} of=${problem} />
    ${page && own.length === 0 && html`<p class="muted">No connections yet. A connection is a key for web pages with its own quota and expiry.</p>`}
    ${own.map(({ id, name, connection_key: key, allowed_origins: allowed }) => html`
      <div key=${id}><p><b>${name}</b> <span class="muted">${allowed.join(", ")}</span></p><${Snippet} connectionKey=${key} /></div>`)}
    ${making && html`<${NewConnection} agents=${[agent]} agentId=${agent.id} onClose=${() => setMaking(false)} onMade=${() => (setMaking(false), refresh())} />`}`;
}

function Check({ label, checked, onChange }) {
  const id = useId();
  return html`<p class="check"><input id=${id} type="checkbox" checked=${checked} onChange=${(event) => onChange(event.target.checked)} /> <label for=${id}>${label}</label></p>`;
}

/** Returns the HTML that embeds a chat in a page. */
function snippetOf(connectionKey, origin = location.origin) {
  return `<script src="${origin}/widget.js" data-connection-key="${connectionKey}"></script>`;
}

export function Snippet({ connectionKey }) {
  const text = snippetOf(connectionKey);
  return html`
    <div class="snippet">
      <pre class="json" tabindex="0" role="region" aria-label="Widget snippet">${text}</pre>
      <p class="form-actions"><${CopyButton} text=${text} label="Copy snippet" /></p>
    </div>`;
}
