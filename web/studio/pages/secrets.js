/** Secrets of toolsets: their names and times; a value goes in and never comes out. */
import { get, write } from "../../api/client.js";
import { allows } from "../../api/session.js";
import { html, useState } from "../../html.js";
import { agoText } from "../../model/format.js";
import { Confirm } from "../parts/confirm.js";
import { DataTable } from "../parts/data_table.js";
import { Dialog } from "../parts/dialog.js";
import { TextField } from "../parts/field.js";
import { Icon } from "../parts/icon.js";
import { PageHead } from "../parts/page_head.js";
import { Problem } from "../parts/problem.js";
import { useAction } from "../parts/use_action.js";
import { useLoaded } from "../parts/use_loaded.js";

// A company has at most 200 of them.
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
      <p class="lead">Headers of toolsets refer to a secret as <code>${"${secret:NAME}"}</code>. Values are encrypted, and nobody can read them again.</p>
      <${Problem} of=${problem} />
      ${page && html`<${DataTable} label="Secrets" items=${page.secrets} keyOf=${({ name }) => name} columns=${columnsOf(setOpen)} empty="No secret yet." />`}
      ${open?.kind === "put" && html`<${PutSecret} given=${open.name} onClose=${close} onDone=${() => (close(), refresh())} />`}
      ${open?.kind === "delete" && html`
        <${Confirm} title=${`Delete ${open.name}?`} action="Delete" onClose=${close}
          onConfirm=${async () => (await write("DELETE", `/secrets/${open.name}/`), await refresh())}>
          <p>Calls of tools whose headers refer to it fail from now on.</p>
        <//>`}
    </div>`;
}

function columnsOf(onOpen) {
  return [
    { label: "Name", className: "plain", cell: ({ name }) => html`<code>${name}</code>` },
    { label: "Stored", cell: ({ created_at: at }) => agoText(at) },
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
  const { busy, problem, run } = useAction(async () => {
    await write("PUT", `/secrets/${encodeURIComponent(name)}/`, { value });
    onDone();
  });
  const submit = (event) => (event.preventDefault(), run());
  return html`
    <${Dialog} title=${given ? `Replace ${given}` : "New secret"} onClose=${onClose}>
      <form class="form" onSubmit=${submit} autocomplete="off">
        ${!given && html`
          <${TextField} label="Name" name="path" required maxlength="64" pattern="[A-Za-z][A-Za-z0-9_\\-]*" spellcheck="false" placeholder="TICKETS_TOKEN"
            hint="A letter first, then letters, digits, _ and -. One that is there already gets the new value." problem=${problem} value=${name} onValue=${setName} />`}
        <${TextField} label="Value" name="value" type="password" required maxlength="8000" autocomplete="new-password" problem=${problem} value=${value} onValue=${setValue} />
        <${Problem} of=${problem} shown=${["path", "value"]} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy}>Save</button>
        </div>
      </form>
    <//>`;
}
