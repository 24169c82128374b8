/** Connections: public keys that let web pages chat with one agent. */
import { allows, get, write } from "../../api/client.js";
import { html, useState } from "../../html.js";
import { countText, momentText } from "../../model/format.js";
import { Snippet } from "../parts/agents/publish.js";
import { Confirm, CopyButton } from "../parts/forms.js";
import { useLoaded } from "../parts/hooks.js";
import { NewConnection } from "../parts/keys.js";
import { Icon, PageHead, Paging, Problem } from "../parts/views.js";
import { hrefOf } from "../router.js";

const LIMIT = 20;

export default function Connections() {
  const [offset, setOffset] = useState(0);
  const { value: page, problem, refresh } = useLoaded((signal) => get("/connections/", { limit: LIMIT, offset }, { signal }), offset, { changes: "connection" });
  const agents = useLoaded((signal) => (allows("agents:read") ? get("/agent/", {}, { signal }) : []), "", { changes: "agent" });
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const names = new Map((agents.value ?? []).map(({ id, name }) => [id, name]));
  return html`
    <div class="page">
      <${PageHead} title="Connections">
        ${allows("keys:write") && html`<button class="button primary" disabled=${!agents.value?.length} onClick=${() => setOpen({ kind: "new" })}><${Icon} name="plus" />New connection</button>`}
      <//>
      <p class="lead">A connection is a public key for one agent. Pages on its origins can only use it to chat with that agent.</p>
      <${Problem} of=${problem ?? agents.problem} />
      ${agents.value?.length === 0 && html`<p class="empty">A connection needs an agent, and there are none yet. <a href=${hrefOf("agents/new/")}>Create an agent</a></p>`}
      ${page?.connections.length === 0 && agents.value?.length > 0 && html`<p class="empty">No connections yet. Create one to embed an agent in a web page.</p>`}
      <ul class="card-list">
        ${page?.connections.map((connection) => html`
          <${ConnectionCard} key=${connection.id} connection=${connection} agent=${names.get(connection.agent_id)} onDelete=${() => setOpen({ kind: "delete", connection })} />`)}
      </ul>
      ${page && html`<${Paging} offset=${offset} shown=${page.connections.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}
      ${open?.kind === "new" && html`<${NewConnection} agents=${agents.value} onClose=${close} onMade=${() => (close(), refresh())} />`}
      ${open?.kind === "delete" && html`
        <${Confirm} title=${`Delete ${open.connection.name}?`} action="Delete" onClose=${close}
          onConfirm=${async () => (await write("DELETE", `/connections/${open.connection.id}/`), await refresh())}>
          <p>Its key stops working immediately, which ends chats on pages that use it. Their sessions remain.</p>
        <//>`}
    </div>`;
}

function ConnectionCard({ connection, agent, onDelete }) {
  const { name, connection_key: key, agent_key: agentKey, allowed_origins: origins, quota, expires_at: expires } = connection;
  return html`
    <li class="card">
      <div class="card-head">
        <h2>${name}</h2>
        ${allows("keys:write") && html`<button class="button small danger" onClick=${onDelete}>Delete</button>`}
      </div>
      <dl class="facts">
        <dt>Agent</dt><dd>${agent ?? agentKey}</dd>
        <dt>Key</dt><dd><code>${key}</code> <${CopyButton} text=${key} label="Copy key" /></dd>
        <dt>Origins</dt><dd>${origins.join(", ")}</dd>
        <dt>Quota</dt><dd>${quota ? `${countText(quota, "request")} per minute` : "none"}</dd>
        <dt>Expires</dt><dd>${expires ? momentText(expires) : "never"}</dd>
      </dl>
      <${Snippet} connectionKey=${key} />
    </li>`;
}
