/** Health of the services: each replica for operators, in short for a company. */
import { get } from "../../../api/client.js";
import { html } from "../../../html.js";
import { momentText } from "../../../model/format.js";
import { DataTable } from "../data_table.js";
import { Problem } from "../problem.js";
import { ServiceChip, StatusChip } from "../chips.js";
import { useLoaded } from "../use_loaded.js";
import { useLookAgain } from "../use_look_again.js";

const PAUSE_MS = 5_000;

export function Health({ isWhole }) {
  const { value, problem, refresh } = useLoaded((signal) => get("/operations/services/", {}, { signal }));
  useLookAgain(refresh, PAUSE_MS, [value, problem]);
  const replicas = (value?.services ?? []).flatMap(({ service, replicas: found }) => found.map((each, at) => ({ service, at, ...each })));
  return html`
    <section aria-labelledby="health">
      <div class="section-head">
        <h2 id="health">Health</h2>
        ${value && html`<span class="muted">${sumOf(value.services)}, <time title=${momentText(value.checked_at)}>looked at again every 5 s</time></span>`}
      </div>
      <${Problem} of=${problem} />
      ${value && (isWhole
        ? html`<${DataTable} label="Replicas" items=${replicas} keyOf=${({ service, address, at }) => `${service} ${address} ${at}`} columns=${REPLICAS} empty="No address of a service is known." />`
        : html`<${DataTable} label="Services" items=${value.services} keyOf=${({ service }) => service} columns=${SERVICES} empty="No address of a service is known." />`)}
    </section>`;
}

const SERVICE = { label: "Service", cell: ({ service }) => html`<${ServiceChip} service=${service} />` };
const STATUS = { label: "Status", cell: ({ status }) => html`<${StatusChip} status=${status} />` };
const REPLICAS = [
  SERVICE,
  { label: "Address", cell: ({ address }) => html`<code>${address}</code>` },
  STATUS,
  { label: "Version", className: "nowrap", cell: ({ version }) => version ?? "unknown" },
  { label: "Reason", cell: ({ reason }) => reason || html`<span class="muted">none</span>` },
];
const SERVICES = [SERVICE, STATUS, { label: "Ready", cell: ({ ready, total }) => `${ready} of ${total}` }];

function sumOf(services) {
  const [ready, total] = services.reduce(([some, all], each) => [some + each.ready, all + each.total], [0, 0]);
  return `${ready} of ${total} ready`;
}
