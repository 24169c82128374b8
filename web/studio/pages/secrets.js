/** Toolset secrets, with names and times. Values are write-only. */
import { allows, get, write } from "../../api/client.js";
import { html, useState } from "../../html.js";
import { agoText } from "../../model/format.js";
import { Confirm, FormDialog, TextField } from "../parts/forms.js";
import { useLoaded } from "../parts/hooks.js";
import { DataTable, Icon, PageHead, Problem } from "../parts/views.js";

// A company has at most 200 secrets.
const LIMIT = 200;

export default function Secrets() {
  const { value: page, problem, refresh } = useLoaded((signal) => get("/secrets/", { limit: LIMIT }, { signal }), "", { changes: "secret" });
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  return html`
    <div class="page">
      <${PageHead} title="Secrets">
        ${allows("secrets:write") && html`<button class="button primary" onClick=${() => setOpen({ kind: "put", name: "" })}><${Icon} name="plus" />New secret</button>`}
      <//>
      <p class="lead">Toolset headers reference a secret as <code>${"${secret:NAME}"}</code>. Values are encrypted and can't be read back.</p>
      <${Problem} of=${problem} />
      ${page && html`<${DataTable} label="Secrets" items=${page.secrets} keyOf=${({ name }) => name} columns=${columnsOf(setOpen)} empty="No secrets yet." />`}
      ${open?.kind === "put" && html`<${PutSecret} given=${open.name} onClose=${close} onDone=${() => (close(), refresh())} />`}
      ${open?.kind === "delete" && html`
        <${Confirm} title=${`Delete ${open.name}?`} action="Delete" onClose=${close}
          onConfirm=${async () => (await write("DELETE", `/secrets/${open.name}/`), await refresh())}>
          <p>Tool calls with this secret in a header will fail.</p>
        <//>`}
    </div>`;
}

function columnsOf(onOpen) {
  return [
    { label: "Name", className: "plain", cell: ({ name }) => html`<code>${name}</code>` },
    { label: "Created", cell: ({ created_at: at }) => agoText(at) },
    { label: "Value changed", cell: ({ updated_at: at }) => agoText(at) },
    {
      label: "",
      cell: ({ name }) => allows("secrets:write") && html`
        <button class="button small" onClick=${() => onOpen({ kind: "put", name })}>Replace</button>
        <button class="button small danger" onClick=${() => onOpen({ kind: "delete", name })}>Delete</button>`,
    },
  ];
}

function PutSecret({ given, onClose, onDone }) {
  const [name, setName] = useState(given);
  const [value, setValue] = useState("");
  const submit = async () => {
    await write("PUT", `/secrets/${encodeURIComponent(name)}/`, { value });
    onDone();
  };
  return html`
    <${FormDialog} title=${given ? `Replace ${given}` : "New secret"} shown=${["path", "value"]} onSubmit=${submit} onClose=${onClose}>
      ${(problem) => html`
        ${!given && html`
          <${TextField} label="Name" name="path" required maxlength="64" pattern="[A-Za-z][A-Za-z0-9_\\-]*" spellcheck="false" placeholder="TICKETS_TOKEN"
            hint="A letter, followed by letters, digits, _ or -. If the name exists, its value is replaced." problem=${problem} value=${name} onValue=${setName} />`}
        <${TextField} label="Value" name="value" type="password" required maxlength="8000" autocomplete="new-password" problem=${problem} value=${value} onValue=${setValue} />`}
    <//>`;
}
