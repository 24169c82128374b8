/** Agents: the list, and the page of one agent with its configuration. */
import { allows, get, write } from "../../api/client.js";
import { html, useState } from "../../html.js";
import { agoText } from "../../model/format.js";
import { Editor } from "../parts/agents/editor.js";
import { Publish } from "../parts/agents/publish.js";
import { Confirm } from "../parts/forms.js";
import { useLoaded } from "../parts/hooks.js";
import { Icon, Problem } from "../parts/views.js";
import { go, hrefOf } from "../router.js";

export default function Agents({ segments }) {
  const [id] = segments;
  // Keep a new agent's editor when the address changes to that of the created agent.
  const [made, setMade] = useState(null);
  if (!id) return html`<${AgentList} />`;
  return html`<${AgentPage} key=${id === made ? "new" : id} id=${id === "new" ? null : id} onMade=${setMade} />`;
}

function AgentList() {
  const { value: agents, problem } = useLoaded((signal) => get("/agent/", {}, { signal }), "", { changes: "agent" });
  return html`
    <div class="page">
      <div class="page-head">
        <h1 tabindex="-1">Agents</h1>
        <span class="spacer"></span>
        ${allows("agents:write") && html`<a class="button primary" href=${hrefOf("agents/new/")}><${Icon} name="plus" />New agent</a>`}
      </div>
      <${Problem} of=${problem} />
      ${!agents && !problem && html`<p class="empty">Loading agents…</p>`}
      ${agents?.length === 0 && html`<p class="empty">No agents yet. Create one from a few lines of YAML.</p>`}
      <ul class="agent-list">
        ${(agents ?? []).map((agent) => html`
          <li key=${agent.id} class="card">
            <a href=${hrefOf(`agents/${agent.id}/`)}>${agent.name}</a>
            <p class="muted">${agent.system_config.agent_type}, ${agent.system_config.llm_config?.model ?? "built-in model"}</p>
            <p class="muted">version ${agent.version_number}, changed ${agoText(agent.updated_at)}${agent.is_public ? ", public" : agent.is_shared ? ", shared" : ""}</p>
          </li>`)}
      </ul>
    </div>`;
}

function AgentPage({ id, onMade }) {
  const { value: agent, problem, set: setAgent } = useLoaded((signal) => (id ? get(`/agent/${id}/`, {}, { signal }) : null), id);
  const [deleting, setDeleting] = useState(false);
  const saved = (next) => {
    if (!id) onMade(next.id);
    setAgent(next);
  };
  return html`
    <div class="page limited">
      <p class="back"><a href=${hrefOf("agents/")}>All agents</a></p>
      <div class="page-head">
        <h1 tabindex="-1">${id ? (agent?.name ?? "Agent") : "New agent"}</h1>
        ${agent && html`<span class="muted">version ${agent.version_number} <code>${agent.agent_key}</code></span>`}
        <span class="spacer"></span>
        ${agent && allows("agents:write") && html`<button class="button danger" onClick=${() => setDeleting(true)}>Delete</button>`}
      </div>
      <${Problem} of=${problem} />
      ${id && !agent && !problem && html`<p class="empty">Loading the agent…</p>`}
      ${(agent || !id) && html`<${Editor} agent=${agent} onSaved=${saved} />`}
      ${agent && html`<${Publish} agent=${agent} onSaved=${saved} />`}
      ${deleting && html`
        <${Confirm} title=${`Delete ${agent.name}?`} action="Delete" onClose=${() => setDeleting(false)}
          onConfirm=${async () => (await write("DELETE", `/agent/${agent.id}/`), go("agents/"))}>
          <p>New sessions can't use it, and its key and connections stop working on web pages. Existing sessions continue.</p>
        <//>`}
    </div>`;
}
