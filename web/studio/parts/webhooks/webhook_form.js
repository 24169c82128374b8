/** A webhook's settings, of a new one or of one that is there. */
import { write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { Dialog } from "../dialog.js";
import { Field, TextField } from "../field.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";

const SUGGESTED = ["turn.completed", "turn.failed", "turn.action_required", "knowledge_base.ingestion.*", "artifact.*", "file.*", "agent.*", "*"];

export function WebhookForm({ webhook, onSaved, onClose }) {
  const [url, setUrl] = useState(webhook?.url ?? "");
  const [types, setTypes] = useState((webhook?.event_types ?? ["turn.completed", "turn.failed"]).join("\n"));
  const [description, setDescription] = useState(webhook?.description ?? "");
  const { busy, problem, run } = useAction(async () => {
    const body = { url: url.trim(), event_types: typesIn(types), description };
    onSaved(await write(webhook ? "PATCH" : "POST", webhook ? `/webhooks/${webhook.id}/` : "/webhooks/", body));
  });
  const submit = (event) => (event.preventDefault(), run());
  const add = (type) => setTypes([...new Set([...typesIn(types), type])].join("\n"));
  return html`
    <${Dialog} title=${webhook ? "Change the webhook" : "New webhook"} onClose=${onClose}>
      <form class="form" onSubmit=${submit}>
        <${TextField} label="Address" name="url" type="url" required maxlength="2000" placeholder="https://example.com/hooks/agents"
          hint="Called by POST. It must be public, unless the operator allows its network." problem=${problem} value=${url} onValue=${setUrl} />
        <${Field} label="Event types" name="event_types" hint="One a line: names, or prefixes that end in *." problem=${problem}>
          ${(given) => html`<textarea class="code" rows="4" required spellcheck="false" value=${types} onInput=${(event) => setTypes(event.target.value)} ...${given}></textarea>`}
        <//>
        <p class="tags" role="group" aria-label="Add a type">
          ${SUGGESTED.filter((type) => !typesIn(types).includes(type)).map((type) => html`
            <button key=${type} type="button" class="button small" aria-label=${`Add ${type}`} onClick=${() => add(type)}>+ ${type}</button>`)}
        </p>
        <${TextField} label="Description" name="description" maxlength="1000" problem=${problem} value=${description} onValue=${setDescription} />
        <${Problem} of=${problem} shown=${["url", "event_types", "description"]} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy}>${webhook ? "Save" : "Create"}</button>
        </div>
      </form>
    <//>`;
}

function typesIn(text) {
  return text.split(/[\s,]+/).filter(Boolean);
}
