/** Webhooks: the URLs that receive events, and the outcome of each delivery. */
import { allows, get, write } from "../../api/client.js";
import { html, useState } from "../../html.js";
import { agoText, momentText } from "../../model/format.js";
import { Confirm, Field, FormDialog, RotateDialog, SecretOnce, TextField } from "../parts/forms.js";
import { useAction, useLoaded, useLookAgain, useUnchanged } from "../parts/hooks.js";
import { DataTable, Icon, PageHead, Paging, Problem, StatusChip } from "../parts/views.js";
import { go, hrefOf } from "../router.js";

const LIMIT = 50;
const REASONS = {
  gone: "the address returned 410 Gone",
  unreachable: "every delivery failed for five days",
  key_revoked: "the key that created it was revoked",
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
      <p class="lead">Webhooks send events to your address as they happen. Events are signed, sent in order per subject, and retried after failures.</p>
      <${Problem} of=${problem} />
      ${page && html`
        <${DataTable} label="Webhooks" items=${page.webhooks} keyOf=${({ id }) => id} columns=${COLUMNS} empty="No webhooks yet." />
        <${Paging} offset=${offset} shown=${page.webhooks.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}
      ${open?.kind === "new" && html`<${WebhookForm} onSaved=${made} onClose=${() => setOpen(null)} />`}
      ${open?.kind === "secret" && html`<${SecretOfWebhook} webhook=${open.webhook} onDone=${() => setOpen(null)} />`}
    </div>`;
}

/** Returns a webhook's status, which also shows if an enabled webhook is failing. */
function statusOf({ status, failing_since: since }) {
  return status === "enabled" && since ? "failing" : status;
}

const COLUMNS = [
  { label: "Address", className: "plain", cell: ({ id, url, description }) => html`<a href=${hrefOf(`webhooks/${id}/`)}>${url}</a>${description && html`<br /><span class="muted">${description}</span>`}` },
  { label: "Status", cell: (webhook) => html`<${StatusChip} status=${statusOf(webhook)} />` },
  { label: "Event types", cell: ({ event_types: types }) => html`<${Types} types=${types} />` },
  { label: "Created", className: "nowrap", cell: ({ created_at: at }) => agoText(at) },
];

function Types({ types }) {
  return html`<span class="tags">${types.map((type) => html`<span key=${type} class="chip">${type}</span>`)}</span>`;
}

function SecretOfWebhook({ webhook, onDone }) {
  return html`
    <${SecretOnce} title="Webhook secret" secret=${webhook.secret} onDone=${onDone}>
      <p>Your receiver uses the secret to verify the signature of each delivery, according to Standard Webhooks.</p>
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
          <dt>Receives</dt><dd>${webhook.company_wide ? "events of the whole company" : "events its creator may see"}</dd>
          ${webhook.disabled_reason && html`<dt>Disabled</dt><dd>${REASONS[webhook.disabled_reason] ?? webhook.disabled_reason}</dd>`}
          ${webhook.failing_since && html`<dt>Failing</dt><dd>every attempt since ${momentText(webhook.failing_since)}</dd>`}
          <dt>Created</dt><dd>${agoText(webhook.created_at)}</dd>
        </dl>
        <${Deliveries} webhookId=${id} changes=${tests} />`}
      ${open === "edit" && html`<${WebhookForm} webhook=${webhook} onSaved=${(saved) => (set(saved), close())} onClose=${close} />`}
      ${open === "rotate" && html`
        <${RotateDialog} title="Replace the secret" path=${`${path}rotate/`} onClose=${close} onRotated=${(issued) => setOpen({ secret: issued })}>
          <p>For as long as you choose, deliveries are signed with the old and the new secret.</p>
        <//>`}
      ${open?.secret && html`<${SecretOfWebhook} webhook=${open.secret} onDone=${close} />`}
      ${open === "delete" && html`
        <${Confirm} title="Delete this webhook?" action="Delete" onClose=${close}
          onConfirm=${async () => (await write("DELETE", path), go("webhooks/"))}>
          <p>Nothing more is sent to <code>${webhook.url}</code>. Pending deliveries are dropped.</p>
        <//>`}
    </div>`;
}

const DELIVERIES = 25;
const SHORT = 60;
const LOOK_AGAIN_MS = 1_000;
const IDLE_MS = 10_000;

/** A webhook's deliveries. `changes` counts actions on the page, such as sending a test. */
function Deliveries({ webhookId, changes }) {
  const [offset, setOffset] = useState(0);
  const path = `/webhooks/${webhookId}/deliveries/`;
  const { value: page, problem, refresh } = useLoaded((signal) => get(path, { limit: DELIVERIES, offset }, { signal }), `${offset}/${changes}`);
  const again = useAction(async (id) => {
    await write("POST", `${path}${id}/redeliver/`);
    await refresh();
  });
  const pending = page?.deliveries.some(({ status }) => status === "pending");
  useLookAgain(refresh, pending ? LOOK_AGAIN_MS : IDLE_MS, [page, problem]);
  return html`
    <div class="section-head"><h2>Deliveries</h2></div>
    <${Problem} of=${again.problem ?? problem} />
    ${page && html`
      <${DataTable} label="Deliveries" items=${page.deliveries} keyOf=${({ id }) => id} columns=${columnsOf(again)} empty="No deliveries in the last week." />
      <${Paging} offset=${offset} shown=${page.deliveries.length} total=${page.total} limit=${DELIVERIES} onOffset=${setOffset} />`}`;
}

function columnsOf({ run, busy }) {
  return [
    { label: "Event", className: "plain", cell: ({ type, event_id: id }) => html`<b>${type}</b><br /><code class="muted">${id}</code>` },
    { label: "Status", cell: ({ status }) => html`<${StatusChip} status=${status} />` },
    { label: "Attempts", cell: ({ attempts }) => attempts },
    { label: "Response", cell: (delivery) => html`<${Answer} delivery=${delivery} />` },
    { label: "Created", className: "nowrap", cell: ({ created_at: at }) => agoText(at) },
    {
      label: "",
      cell: ({ id, status }) => allows("webhooks:write") && html`
        <button class="button small" disabled=${busy} onClick=${() => run(id)}>${status === "pending" ? "Deliver now" : "Redeliver"}</button>`,
    },
  ];
}

function Answer({ delivery: { last_status: status, last_response: response, next_attempt_at: next, status: state, attempts } }) {
  const waits = state === "pending" && (next ? `next attempt ${momentText(next)}` : attempts === 0 ? "blocked by an earlier event" : "");
  return html`
    ${status !== null && html`<b>${status}</b> `}
    ${response && html`<details class="answer"><summary>${response.length > SHORT ? `${response.slice(0, SHORT)}…` : response}</summary><pre class="json" tabindex="0" role="region" aria-label="Response">${response}</pre></details>`}
    ${waits && html`<small class="muted">${waits}</small>`}`;
}

const SUGGESTED = ["turn.completed", "turn.failed", "turn.action_required", "knowledge_base.ingestion.*", "artifact.*", "file.*", "agent.*", "*"];

/** A form for the settings of a new or existing webhook. */
function WebhookForm({ webhook, onSaved, onClose }) {
  const [url, setUrl] = useState(webhook?.url ?? "");
  const [types, setTypes] = useState((webhook?.event_types ?? ["turn.completed", "turn.failed"]).join("\n"));
  const [description, setDescription] = useState(webhook?.description ?? "");
  const check = useUnchanged(webhook, () => get(`/webhooks/${webhook.id}/`), editedOf);
  const submit = async () => {
    await check();
    const body = { url: url.trim(), event_types: typesIn(types), description };
    onSaved(await write(webhook ? "PATCH" : "POST", webhook ? `/webhooks/${webhook.id}/` : "/webhooks/", body));
  };
  const add = (type) => setTypes([...new Set([...typesIn(types), type])].join("\n"));
  return html`
    <${FormDialog} title=${webhook ? "Edit webhook" : "New webhook"} action=${webhook ? "Save" : "Create"} shown=${["url", "event_types", "description"]} onSubmit=${submit} onClose=${onClose}>
      ${(problem) => html`
        <${TextField} label="Address" name="url" type="url" required maxlength="2000" placeholder="https://example.com/hooks/agents"
          hint="Receives POST requests. The address must be public, unless an operator allows its network." problem=${problem} value=${url} onValue=${setUrl} />
        <${Field} label="Event types" name="event_types" hint="One per line: names, or prefixes ending in *." problem=${problem}>
          ${(given) => html`<textarea class="code" rows="4" required spellcheck="false" value=${types} onInput=${(event) => setTypes(event.target.value)} ...${given}></textarea>`}
        <//>
        <p class="tags" role="group" aria-label="Add a type">
          ${SUGGESTED.filter((type) => !typesIn(types).includes(type)).map((type) => html`
            <button key=${type} type="button" class="button small" aria-label=${`Add ${type}`} onClick=${() => add(type)}>+ ${type}</button>`)}
        </p>
        <${TextField} label="Description" name="description" maxlength="1000" problem=${problem} value=${description} onValue=${setDescription} />`}
    <//>`;
}

function editedOf({ url, event_types: types, description }) {
  return JSON.stringify([url, types, description]);
}

function typesIn(text) {
  return text.split(/[\s,]+/).filter(Boolean);
}
