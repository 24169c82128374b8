/** The form for a new API key. */
import { write } from "../../../api/client.js";
import { session } from "../../../api/session.js";
import { html, useState } from "../../../html.js";
import { expiryOf } from "../../../model/expiry.js";
import { Dialog } from "../dialog.js";
import { ExpiryField } from "../expiry_field.js";
import { TextField } from "../field.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";
import { ScopePicker } from "./scope_picker.js";

export function NewKey({ onMade, onClose }) {
  const { me } = session.value;
  const [name, setName] = useState("");
  // Rights over the whole installation are given on purpose only.
  const [scopes, setScopes] = useState(me.scopes.filter((scope) => !scope.startsWith("installation:")));
  const [end, setEnd] = useState({ lifetime: "90", day: "" });
  const [limit, setLimit] = useState("");
  const { busy, problem, run } = useAction(async () => {
    const body = { name: name.trim(), scopes, expires_at: expiryOf(end.lifetime, end.day), rate_limit: limit ? Number(limit) : undefined };
    onMade(await write("POST", "/api-keys/", body));
  });
  const submit = (event) => (event.preventDefault(), run());
  return html`
    <${Dialog} title="New key" onClose=${onClose}>
      <form class="form" onSubmit=${submit}>
        <${TextField} label="Name" name="name" required maxlength="200" problem=${problem} value=${name} onValue=${setName} />
        <div class="form-row">
          <${ExpiryField} ...${end} onChange=${setEnd} problem=${problem} />
          <${TextField} label="Requests a minute" name="rate_limit" type="number" min="1" max="1000000" problem=${problem}
            placeholder=${me.rate_limit ?? "no limit"} value=${limit} onValue=${setLimit} />
        </div>
        <${ScopePicker} offered=${me.scopes} chosen=${scopes} onChange=${setScopes} />
        <${Problem} of=${problem} shown=${["name", "expires_at", "rate_limit"]} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy || scopes.length === 0}>Create</button>
        </div>
      </form>
    <//>`;
}
