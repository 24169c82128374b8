/** The form for a new connection: which agent, from which pages, how much and until when. */
import { write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { expiryOf } from "../../../model/expiry.js";
import { Dialog } from "../dialog.js";
import { ExpiryField } from "../expiry_field.js";
import { Field, SelectField, TextField } from "../field.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";

const SHOWN = ["name", "agent_id", "allowed_origins", "quota", "expires_at"];

export function NewConnection({ agents, agentId, onMade, onClose }) {
  const [agent, setAgent] = useState(agentId ?? agents[0]?.id ?? "");
  const [name, setName] = useState("");
  const [origins, setOrigins] = useState("");
  const [quota, setQuota] = useState("");
  const [end, setEnd] = useState({ lifetime: "", day: "" });
  const { busy, problem, run } = useAction(async () => {
    const allowed = origins.split(/[\s,]+/).filter(Boolean);
    const body = { agent_id: agent, name: name.trim(), allowed_origins: allowed, quota: quota ? Number(quota) : undefined };
    onMade(await write("POST", "/connections/", { ...body, expires_at: expiryOf(end.lifetime, end.day) }));
  });
  const submit = (event) => (event.preventDefault(), run());
  return html`
    <${Dialog} title="New connection" onClose=${onClose}>
      <form class="form" onSubmit=${submit}>
        <${SelectField} label="Agent" name="agent_id" problem=${problem} value=${agent} onValue=${setAgent} options=${agents.map(({ id, name: title }) => [id, title])} />
        <${TextField} label="Name" name="name" maxlength="200" hint="The agent's name when left out." problem=${problem} value=${name} onValue=${setName} />
        <${Field} label="Allowed origins" name="allowed_origins" hint="One a line, such as https://example.com: the pages that may use the key." problem=${problem}>
          ${(given) => html`<textarea class="code" rows="3" required spellcheck="false" placeholder="https://example.com" value=${origins} onInput=${(event) => setOrigins(event.target.value)} ...${given}></textarea>`}
        <//>
        <div class="form-row">
          <${TextField} label="Requests a minute" name="quota" type="number" min="1" max="1000000" hint="Of all visitors together." problem=${problem} value=${quota} onValue=${setQuota} />
          <${ExpiryField} ...${end} never onChange=${setEnd} problem=${problem} />
        </div>
        <${Problem} of=${problem} shown=${SHOWN} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy || !agent}>Create</button>
        </div>
      </form>
    <//>`;
}
