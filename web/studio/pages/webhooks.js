/** Webhooks: addresses that events are sent to, and what became of each. */
import { get, write } from "../../api/client.js";
import { allows } from "../../api/session.js";
import { html, useState } from "../../html.js";
import { go, hrefOf } from "../router.js";
import { agoText, momentText } from "../../model/format.js";
import { Confirm } from "../parts/confirm.js";
import { DataTable } from "../parts/data_table.js";
import { Icon } from "../parts/icon.js";
import { PageHead } from "../parts/page_head.js";
import { Paging } from "../parts/paging.js";
import { Problem } from "../parts/problem.js";
import { RotateDialog } from "../parts/rotate_dialog.js";
import { SecretOnce } from "../parts/secret_once.js";
import { StatusChip } from "../parts/chips.js";
import { useAction } from "../parts/use_action.js";
import { useLoaded } from "../parts/use_loaded.js";
import { Deliveries } from "../parts/webhooks/deliveries.js";
import { WebhookForm } from "../parts/webhooks/webhook_form.js";

const LIMIT = 50;
const REASONS = {
  gone: "the address answered that it is gone (410)",
  unreachable: "nothing was delivered in five days of attempts",
  key_revoked: "the key that made it was revoked",
};

export default function Webhooks({ segments }) {
  const [id] = segments;
  return id ? html`<${WebhookPage} key=${id} id=${id} />` : html`<${WebhookList} />`;
}

function WebhookList() {
  const [offset, setOffset] = useState(0);
  const { value: page, problem, refresh } = useLoaded((signal) => get("/webhooks/", { limit: LIMIT, offset }, { signal }), offset, { changes: "webhook" });
  const [open, setOpen] = useState(null);
  const made = (webhook) => (setOpen({ kind: "secret", webhook }), refresh());
  return html`
    <div class="page">
      <${PageHead} title="Webhooks">
        ${allows("webhooks:write") && html`<button class="button primary" onClick=${() => setOpen({ kind: "new" })}><${Icon} name="plus" />New webhook</button>`}
      <//>
      <p class="lead">Events are sent to an address of yours as they happen, signed, in order for each subject, and again when it does not answer.</p>
      <${Problem} of=${problem} />
      ${page && html`
        <${DataTable} label="Webhooks" items=${page.webhooks} keyOf=${({ id }) => id} columns=${COLUMNS} empty="No webhook yet." />
        <${Paging} offset=${offset} shown=${page.webhooks.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}
      ${open?.kind === "new" && html`<${WebhookForm} onSaved=${made} onClose=${() => setOpen(null)} />`}
      ${open?.kind === "secret" && html`<${SecretOfWebhook} webhook=${open.webhook} onDone=${() => setOpen(null)} />`}
    </div>`;
}

/** One that is enabled may deliver nothing all the same. */
function statusOf({ status, failing_since: since }) {
  return status === "enabled" && since ? "failing" : status;
}

const COLUMNS = [
  { label: "Address", className: "plain", cell: ({ id, url, description }) => html`<a href=${hrefOf(`webhooks/${id}/`)}>${url}</a>${description && html`<br /><span class="muted">${description}</span>`}` },
  { label: "Status", cell: (webhook) => html`<${StatusChip} status=${statusOf(webhook)} />` },
  { label: "Event types", cell: ({ event_types: types }) => html`<${Types} types=${types} />` },
  { label: "Made", className: "nowrap", cell: ({ created_at: at }) => agoText(at) },
];

function Types({ types }) {
  return html`<span class="tags">${types.map((type) => html`<span key=${type} class="chip">${type}</span>`)}</span>`;
}

function SecretOfWebhook({ webhook, onDone }) {
  return html`
    <${SecretOnce} title="Secret of the webhook" secret=${webhook.secret} onDone=${onDone}>
      <p>With it the receiver checks the signature of each delivery, as Standard Webhooks describes.</p>
    <//>`;
}

function WebhookPage({ id }) {
  const path = `/webhooks/${id}/`;
  const { value: webhook, problem, set } = useLoaded((signal) => get(path, {}, { signal }), id);
  const [open, setOpen] = useState(null);
  const [tests, setTests] = useState(0);
  const test = useAction(async () => {
    await write("POST", `${path}test/`);
    setTests((count) => count + 1);
  });
  const status = useAction(async (next) => set(await write("PATCH", path, { status: next })));
  const close = () => setOpen(null);
  const enabled = webhook?.status === "enabled";
  const may = allows("webhooks:write");
  return html`
    <div class="page">
      <${PageHead} title="Webhook" back=${{ path: "webhooks/", label: "All webhooks" }} aside=${webhook && html`<${StatusChip} status=${statusOf(webhook)} />`}>
        ${webhook && may && html`
          <button class="button primary" disabled=${test.busy} onClick=${() => test.run()}><${Icon} name="send" />Send a test</button>
          <button class="button" onClick=${() => setOpen("edit")}>Change</button>
          <button class="button" onClick=${() => setOpen("rotate")}>Rotate secret</button>
          <button class="button" disabled=${status.busy} onClick=${() => status.run(enabled ? "disabled" : "enabled")}>${enabled ? "Disable" : "Enable"}</button>
          <button class="button danger" onClick=${() => setOpen("delete")}>Delete</button>`}
      <//>
      <${Problem} of=${test.problem ?? status.problem ?? problem} />
      ${webhook && html`
        <dl class="facts card">
          <dt>Address</dt><dd><code>${webhook.url}</code></dd>
          ${webhook.description && html`<dt>Description</dt><dd>${webhook.description}</dd>`}
          <dt>Event types</dt><dd><${Types} types=${webhook.event_types} /></dd>
          <dt>Gets</dt><dd>${webhook.company_wide ? "events of the whole company" : "what its maker may see"}</dd>
          ${webhook.disabled_reason && html`<dt>Disabled</dt><dd>${REASONS[webhook.disabled_reason] ?? webhook.disabled_reason}</dd>`}
          ${webhook.failing_since && html`<dt>Failing</dt><dd>every attempt since ${momentText(webhook.failing_since)}</dd>`}
          <dt>Made</dt><dd>${agoText(webhook.created_at)}</dd>
        </dl>
        <${Deliveries} webhookId=${id} changes=${tests} />`}
      ${open === "edit" && html`<${WebhookForm} webhook=${webhook} onSaved=${(saved) => (set(saved), close())} onClose=${close} />`}
      ${open === "rotate" && html`
        <${RotateDialog} title="Replace the secret" path=${`${path}rotate/`} onClose=${close} onRotated=${(issued) => setOpen({ secret: issued })}>
          <p>Deliveries are signed with both secrets for the time that you choose.</p>
        <//>`}
      ${open?.secret && html`<${SecretOfWebhook} webhook=${open.secret} onDone=${close} />`}
      ${open === "delete" && html`
        <${Confirm} title="Delete this webhook?" action="Delete" onClose=${close}
          onConfirm=${async () => (await write("DELETE", path), go("webhooks/"))}>
          <p>Nothing is sent to <code>${webhook.url}</code> any more, what waits included.</p>
        <//>`}
    </div>`;
}
