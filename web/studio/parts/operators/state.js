/** The services' health and the consumers' lag. */
import { get } from "../../../api/client.js";
import { html } from "../../../html.js";
import { countText, momentText, numberText } from "../../../model/format.js";
import { useLoaded, useLookAgain } from "../hooks.js";
import { DataTable, Problem, ServiceChip, StatusChip } from "../views.js";

const PAUSE_MS = 5_000;

/** The services' health: by replica for operators, or a summary for a company. */
export function Health({ isWhole }) {
  const { value, problem, refresh } = useLoaded((signal) => get("/operations/services/", {}, { signal }));
  useLookAgain(refresh, PAUSE_MS, [value, problem]);
  const replicas = (value?.services ?? []).flatMap(({ service, replicas: found }) => found.map((each, at) => ({ service, at, ...each })));
  return html`
    <section aria-labelledby="health">
      <div class="section-head">
        <h2 id="health">Health</h2>
        ${value && html`<span class="muted">${sumOf(value.services)}, <time title=${momentText(value.checked_at)}>refreshes every 5 s</time></span>`}
      </div>
      <${Problem} of=${problem} />
      ${value && (isWhole
        ? html`<${DataTable} label="Replicas" items=${replicas} keyOf=${({ service, address, at }) => `${service} ${address} ${at}`} columns=${REPLICAS} empty="No services are known." />`
        : html`<${DataTable} label="Services" items=${value.services} keyOf=${({ service }) => service} columns=${SERVICES} empty="No services are known." />`)}
    </section>`;
}

const SERVICE = { label: "Service", cell: ({ service }) => html`<${ServiceChip} service=${service} />` };
const STATUS = { label: "Status", cell: ({ status }) => html`<${StatusChip} status=${status} />` };
const REPLICAS = [
  SERVICE,
  { label: "Address", cell: ({ address }) => html`<code>${address}</code>` },
  STATUS,
  { label: "Version", className: "nowrap", cell: ({ version }) => version ?? "unknown" },
  { label: "Reason", cell: ({ reason }) => reason || html`<span class="muted">–</span>` },
];
const SERVICES = [SERVICE, STATUS, { label: "Ready", cell: ({ ready, total }) => `${ready} of ${total}` }];

function sumOf(services) {
  const [ready, total] = services.reduce(([some, all], each) => [some + each.ready, all + each.total], [0, 0]);
  return `${ready} of ${total} ready`;
}

const LAG_PAUSE_MS = 10_000;

/** The lag of each consumer group, as bars. */
export function Lag() {
  const { value, problem, refresh } = useLoaded((signal) => get("/operations/consumers/", {}, { signal }));
  useLookAgain(refresh, LAG_PAUSE_MS, [value, problem]);
  const most = Math.max(1, ...(value?.consumers ?? []).map(({ lag }) => lag));
  const largest = value?.consumers.toSorted((a, b) => b.lag - a.lag || order(a, b)) ?? [];
  return html`
    <section aria-labelledby="lag">
      <div class="section-head">
        <h2 id="lag">Consumer lag</h2>
        ${value && html`<span class="muted">${countText(value.lag, "message")} behind, refreshes every 10 s</span>`}
      </div>
      <${Problem} of=${problem} />
      ${!value && !problem && html`<p class="empty">Loading consumer groups…</p>`}
      ${value && html`<${DataTable} label="Consumer lag" items=${largest} keyOf=${({ group, topic }) => `${group} ${topic}`} columns=${columnsOf(most)} empty="No consumer group has committed an offset yet." />`}
    </section>`;
}

function order(a, b) {
  return `${a.group} ${a.topic}`.localeCompare(`${b.group} ${b.topic}`);
}

function columnsOf(most) {
  return [
    { label: "Group", cell: ({ group }) => html`<b>${group}</b>` },
    { label: "Topic", cell: ({ topic }) => topic },
    { label: "Members", className: "number", cell: ({ members, state }) => html`<span class=${`chip ${members === 0 ? "bad" : ""}`} title=${`Kafka state: ${state}`}>${members === 0 ? "none" : members}</span>` },
    {
      label: "Lag",
      className: "lag",
      cell: ({ lag, partitions }) => html`
        <span class="lag-bar" aria-hidden="true"><span style=${{ width: `${(100 * lag) / most}%` }}></span></span>
        <span>${numberText(lag)}</span>
        ${lag > 0 && html`<small class="muted">${partitionsOf(partitions)}</small>`}`,
    },
  ];
}

function partitionsOf(partitions) {
  const behind = partitions.filter(({ lag }) => lag > 0);
  return `in ${countText(behind.length, "partition")}: ${behind.map(({ partition, lag }) => `${partition} (${numberText(lag)})`).join(", ")}`;
}
