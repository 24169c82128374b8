/** What was sent to a webhook and how it was answered; what is under way is looked at again by itself. */
import { get, write } from "../../../api/client.js";
import { allows } from "../../../api/session.js";
import { html, useState } from "../../../html.js";
import { agoText, momentText } from "../../../model/format.js";
import { DataTable } from "../data_table.js";
import { Paging } from "../paging.js";
import { Problem } from "../problem.js";
import { StatusChip } from "../chips.js";
import { useAction } from "../use_action.js";
import { useLoaded } from "../use_loaded.js";
import { useLookAgain } from "../use_look_again.js";

const LIMIT = 25;
const SHORT = 60;
const LOOK_AGAIN_MS = 1_000;
const IDLE_MS = 10_000;

/** `changes` counts what the page did, such as sending a test. */
export function Deliveries({ webhookId, changes }) {
  const [offset, setOffset] = useState(0);
  const path = `/webhooks/${webhookId}/deliveries/`;
  const { value: page, problem, refresh } = useLoaded((signal) => get(path, { limit: LIMIT, offset }, { signal }), `${offset}/${changes}`);
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
      <${DataTable} label="Deliveries" items=${page.deliveries} keyOf=${({ id }) => id} columns=${columnsOf(again)} empty="Nothing was sent in the last week." />
      <${Paging} offset=${offset} shown=${page.deliveries.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}`;
}

function columnsOf({ run, busy }) {
  return [
    { label: "Event", className: "plain", cell: ({ type, event_id: id }) => html`<b>${type}</b><br /><code class="muted">${id}</code>` },
    { label: "Status", cell: ({ status }) => html`<${StatusChip} status=${status} />` },
    { label: "Attempts", cell: ({ attempts }) => attempts },
    { label: "Answer", cell: (delivery) => html`<${Answer} delivery=${delivery} />` },
    { label: "Made", className: "nowrap", cell: ({ created_at: at }) => agoText(at) },
    {
      label: "",
      cell: ({ id, status }) => allows("webhooks:write") && status !== "pending" && html`
        <button class="button small" disabled=${busy} onClick=${() => run(id)}>Redeliver</button>`,
    },
  ];
}

function Answer({ delivery: { last_status: status, last_response: response, next_attempt_at: next, status: state, attempts } }) {
  const waits = state === "pending" && (next ? `next attempt ${momentText(next)}` : attempts === 0 ? "waits for its turn" : "");
  return html`
    ${status !== null && html`<b>${status}</b> `}
    ${response && html`<details class="answer"><summary>${response.length > SHORT ? `${response.slice(0, SHORT)}…` : response}</summary><pre class="json" tabindex="0" role="region" aria-label="Answer">${response}</pre></details>`}
    ${waits && html`<small class="muted">${waits}</small>`}`;
}
