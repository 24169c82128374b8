/** Usage by day, and by agent, model, user or key. */
import { allows, get, session } from "../../api/client.js";
import { html, useMemo } from "../../html.js";
import { byDay, durationText, lastDays, numberText, shortText } from "../../model/format.js";
import { useStore } from "../../store.js";
import { Chart } from "../parts/charts/chart.js";
import { SelectField } from "../parts/forms.js";
import { useLoaded } from "../parts/hooks.js";
import { Budgets, costOf, UsageTable } from "../parts/usage.js";
import { PageHead, Problem } from "../parts/views.js";
import { go } from "../router.js";

const SPANS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "a year"]];
const GROUPS = [["agent", "Agent"], ["model", "Model"], ["user", "User"], ["key", "Key"]];

/** The range and grouping are part of the address, so that they survive a reload and can be shared. */
export default function Usage({ query: given }) {
  const { me } = useStore(session);
  const span = oneOf(SPANS, given.get("days"), "30");
  const group = oneOf(GROUPS, given.get("by"), "agent");
  const change = (fields) => go("usage/", { days: span, by: group, ...fields }, { replace: true });
  const days = useMemo(() => lastDays(Number(span)), [span]);
  const query = { from: days[0], to: days.at(-1), limit: 1000 };
  const daily = useLoaded((signal) => get("/usage/", { ...query, group_by: "day" }, { signal }), span);
  const grouped = useLoaded((signal) => get("/usage/", { ...query, group_by: group }, { signal }), `${span} ${group}`);
  const { names, keys } = useNames();
  const ofCompany = me.scopes.some((scope) => scope.startsWith("company:"));
  const field = group === "model" ? "model" : `${group}_id`;
  // Keep showing the previous grouping while another one loads.
  const shown = grouped.value?.group_by[0] === group ? grouped.value : null;
  return html`
    <div class="page usage">
      <${PageHead} title="Usage" aside=${html`<span class="muted">${ofCompany ? me.company_name : "yours"}, days in UTC</span>`} />
      <div class="filters">
        <${SelectField} label="Time" value=${span} onValue=${(days) => change({ days })} options=${SPANS} />
        <${SelectField} label="By" value=${group} onValue=${(by) => change({ by })} options=${GROUPS} />
      </div>
      <${Problem} of=${daily.problem ?? grouped.problem} />
      ${daily.value && html`<${Totals} totals=${daily.value.totals} /><${Charts} days=${days} items=${daily.value.usage} />`}
      ${shown && html`<${UsageTable} label=${GROUPS.find(([each]) => each === group)[1]} items=${shown.usage} nameOf=${(item) => names.get(item[field]) ?? item[field] ?? (group === "agent" ? "Inline configuration" : "none")} />`}
      ${shown?.has_more && html`<p class="muted">Showing the first 1,000 of ${numberText(shown.total)}.</p>`}
      ${allows("budgets:write") && html`<${Budgets} names=${names} keys=${keys} />`}
    </div>`;
}

function oneOf(options, value, usual) {
  return options.some(([each]) => each === value) ? value : usual;
}

function Totals({ totals }) {
  const { turns, input_tokens: input, output_tokens: output, seconds, cost } = totals;
  const short = cost < 1 ? cost : shortText(Math.round(cost * 100) / 100);
  const tiles = [["Turns", shortText(turns)], ["Tokens in", shortText(input)], ["Tokens out", shortText(output)], ["Working time", durationText(seconds * 1000)], ["Cost", costOf({ ...totals, cost: short })]];
  return html`<dl class="tiles">${tiles.map(([label, value]) => html`<div key=${label} class="tile card"><dt>${label}</dt><dd><b>${value}</b></dd></div>`)}</dl>`;
}

function Charts({ days, items }) {
  const { times, turns, input_tokens: input, output_tokens: output, cost } = useMemo(
    () => ({ times: days.map((day) => Date.parse(day) / 1000), ...byDay(days, items, ["turns", "input_tokens", "output_tokens", "cost"]) }),
    [days, items],
  );
  const total = (values) => numberText(values.reduce((sum, value) => sum + value, 0));
  return html`
    <div class="charts">
      <${Chart} dates title="Turns per day" times=${times} summary=${`${total(turns)} in total.`} series=${[{ label: "turns", values: turns, colour: "runtime", kind: "bars" }]} />
      <${Chart} dates title="Tokens per day" times=${times} summary=${`${total(input)} in, ${total(output)} out.`}
        series=${[{ label: "in", values: input, colour: "gateway" }, { label: "out", values: output, colour: "artifacts" }]} />
      <${Chart} dates title="Cost per day" times=${times} summary=${`${total(cost)} in total.`} series=${[{ label: "cost", values: cost, colour: "ingestion", kind: "bars" }]} />
    </div>`;
}

/** Returns the names of agents, keys, connections and the signed-in user by id, and the keys themselves. */
function useNames() {
  const { me } = useStore(session);
  const { value } = useLoaded(async (signal) => {
    const read = (scope, path) => (allows(scope) ? get(path, path === "/agent/" ? {} : { limit: 200 }, { signal }) : null);
    return Promise.all([read("agents:read", "/agent/"), read("keys:read", "/api-keys/"), read("keys:read", "/connections/")]);
  });
  return useMemo(() => {
    const [agents, page, connections] = value ?? [];
    const keys = page?.api_keys ?? [];
    const all = [...(agents ?? []), ...keys.map(({ id, name, prefix }) => ({ id, name: name || `${prefix}…` })), ...(connections?.connections ?? [])];
    return { names: new Map([[me.user_id, me.user_name], ...all.map(({ id, name }) => [id, name || id])]), keys };
  }, [value, me]);
}
