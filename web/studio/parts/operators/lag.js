/** How far each consumer group is behind, as bars. */
import { get } from "../../../api/client.js";
import { html } from "../../../html.js";
import { countText, numberText } from "../../../model/format.js";
import { DataTable } from "../data_table.js";
import { Problem } from "../problem.js";
import { useLoaded } from "../use_loaded.js";
import { useLookAgain } from "../use_look_again.js";

const PAUSE_MS = 10_000;

export function Lag() {
  const { value, problem, refresh } = useLoaded((signal) => get("/operations/consumers/", {}, { signal }));
  useLookAgain(refresh, PAUSE_MS, [value, problem]);
  const most = Math.max(1, ...(value?.consumers ?? []).map(({ lag }) => lag));
  const largest = value?.consumers.toSorted((a, b) => b.lag - a.lag || order(a, b)) ?? [];
  return html`
    <section aria-labelledby="lag">
      <div class="section-head">
        <h2 id="lag">Consumer lag</h2>
        ${value && html`<span class="muted">${countText(value.lag, "message")} behind, looked at again every 10 s</span>`}
      </div>
      <${Problem} of=${problem} />
      ${!value && !problem && html`<p class="empty">Reading the consumer groups…</p>`}
      ${value && html`<${DataTable} label="Consumer lag" items=${largest} keyOf=${({ group, topic }) => `${group} ${topic}`} columns=${columnsOf(most)} empty="No group has committed anything yet." />`}
    </section>`;
}

function order(a, b) {
  return `${a.group} ${a.topic}`.localeCompare(`${b.group} ${b.topic}`);
}

function columnsOf(most) {
  return [
    { label: "Group", cell: ({ group }) => html`<b>${group}</b>` },
    { label: "Topic", cell: ({ topic }) => topic },
    { label: "Members", className: "number", cell: ({ members, state }) => html`<span class=${`chip ${members === 0 ? "bad" : ""}`} title=${`Kafka says ${state}`}>${members === 0 ? "none" : members}</span>` },
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
