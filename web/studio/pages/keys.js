/** API keys: the list, creation with the secret shown once, rotation and revocation. */
import { allows, get, session, write } from "../../api/client.js";
import { html, useState } from "../../html.js";
import { agoText, momentText, numberText } from "../../model/format.js";
import { Confirm, keyState, RotateDialog, SecretOnce } from "../parts/forms.js";
import { useLoaded } from "../parts/hooks.js";
import { NewKey } from "../parts/keys.js";
import { DataTable, Icon, PageHead, Paging, Problem, StatusChip } from "../parts/views.js";

const LIMIT = 50;

export default function Keys() {
  const [offset, setOffset] = useState(0);
  const { value: page, problem, refresh } = useLoaded((signal) => get("/api-keys/", { limit: LIMIT, offset }, { signal }), offset, { changes: "api_key" });
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const issued = (key) => (setOpen({ kind: "secret", key }), refresh());
  return html`
    <div class="page">
      <${PageHead} title="Keys">
        ${allows("keys:write") && html`<button class="button primary" onClick=${() => setOpen({ kind: "new" })}><${Icon} name="plus" />New key</button>`}
      <//>
      <p class="lead">API keys let programs act on behalf of a person, within their scopes. Only their hashes are stored.</p>
      <${Problem} of=${problem} />
      ${!page && !problem && html`<p class="empty">Loading keys…</p>`}
      ${page && html`
        <${DataTable} label="Keys" items=${page.api_keys} keyOf=${({ id }) => id} columns=${columnsOf(setOpen)} rowClass=${(key) => (isUsable(key) ? "" : "off")} empty="No keys yet." />
        <${Paging} offset=${offset} shown=${page.api_keys.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}
      ${open?.kind === "new" && html`<${NewKey} onMade=${issued} onClose=${close} />`}
      ${open?.kind === "secret" && html`
        <${SecretOnce} title=${open.key.name || "The new key"} secret=${open.key.secret} onDone=${close}>
          <p>Programs send it in the header <code>x-api-key</code>.</p>
        <//>`}
      ${open?.kind === "rotate" && html`
        <${RotateDialog} title=${`Replace ${nameOf(open.key)}`} path=${`/api-keys/${open.key.id}/rotate/`} least=${60} onRotated=${issued} onClose=${close}>
          <p>This creates a new key with the same scopes. The old key keeps working for as long as you choose, so that you can update programs.</p>
        <//>`}
      ${open?.kind === "revoke" && html`
        <${Confirm} title=${`Revoke ${nameOf(open.key)}?`} action="Revoke" onClose=${close}
          onConfirm=${async () => (await write("DELETE", `/api-keys/${open.key.id}/`), await refresh())}>
          <p>The key stops working immediately. Its open streams close, and webhooks that it created are disabled. This can't be undone.</p>
          ${open.key.id === session.value.me.key_id && html`<p class="problem">You are signed in with this key: revoking it signs you out.</p>`}
        <//>`}
    </div>`;
}

function isUsable(key) {
  return !["revoked", "expired"].includes(keyState(key));
}

function nameOf({ name, prefix }) {
  return name || `${prefix}…`;
}

function columnsOf(onOpen) {
  return [
    { label: "Name", className: "plain", cell: (key) => html`<b>${key.name || "unnamed"}</b>${key.id === session.value.me.key_id && html` <span class="muted">(this one)</span>`}` },
    { label: "Prefix", className: "nowrap", cell: ({ prefix }) => html`<code>${prefix}…</code>` },
    { label: "Status", cell: (key) => html`<${StatusChip} status=${keyState(key)} />` },
    { label: "Scopes", cell: ({ scopes }) => html`<span title=${scopes.join(", ")}>${scopes.length}</span>` },
    { label: "Per minute", cell: ({ rate_limit: limit }) => (limit ? numberText(limit) : "no limit") },
    { label: "Created", className: "nowrap", cell: ({ created_at: at }) => agoText(at) },
    { label: "Expires", className: "nowrap", cell: ({ expires_at: at }) => (at ? momentText(at) : "never") },
    {
      label: "",
      cell: (key) => allows("keys:write") && isUsable(key) && html`
        <button class="button small" disabled=${key.successor_id !== null} onClick=${() => onOpen({ kind: "rotate", key })}>Rotate</button>
        <button class="button small danger" onClick=${() => onOpen({ kind: "revoke", key })}>Revoke</button>`,
    },
  ];
}
