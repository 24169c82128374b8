/** The overview: running, waiting and failed turns, charts of the last hour, and open approvals. */
import { allows, session } from "../../api/client.js";
import { html, useMemo } from "../../html.js";
import { quantile } from "../../model/activity.js";
import { durationText, numberText } from "../../model/format.js";
import { useStore } from "../../store.js";
import { Chart } from "../parts/charts/chart.js";
import { MOST, TurnList, useActivity, UsedUpBudgets, useNames } from "../parts/overview/activity.js";
import { Approvals } from "../parts/overview/approvals.js";
import { PageHead, Problem } from "../parts/views.js";
import { hrefOf } from "../router.js";

export default function Overview() {
  const { me } = useStore(session);
  const whose = me.scopes.some((scope) => scope.startsWith("company:")) ? me.company_name : `${me.user_name} at ${me.company_name}`;
  return html`
    <div class="page overview">
      <${PageHead} title="Overview" aside=${html`<span class="muted">${whose}</span>`} />
      ${allows("events:read") ? html`<${RecentActivity} />` : html`<p class="empty">Viewing activity requires a key with the scope <code>events:read</code>.</p>`}
    </div>`;
}

function RecentActivity() {
  const { activity, from, now, state, problem } = useActivity();
  const [running, queued, waiting, failed] = ["running", "queued", "waiting", "failed"].map((status) => activity.of(status));
  const underWay = [...running, ...waiting, ...queued];
  const names = useNames([underWay, failed].flatMap((turns) => turns.slice(0, MOST)).map(({ sessionId }) => sessionId));
  const minute = Math.floor(now / 60_000);
  const ended = activity.of("completed", "failed", "cancelled").length;
  const series = useMemo(() => activity.series(now, from), [minute, ended, from]);
  const changes = waiting.map(({ id, at }) => `${id} ${at}`).join();
  return html`
    <${Problem} of=${problem} />
    ${allows("budgets:write") && html`<${UsedUpBudgets} />`}
    <dl class="tiles" aria-busy=${state === "loading"}>
      <${Tile} label="Running" value=${running.length} aside=${queued.length ? `${numberText(queued.length)} queued` : ""} />
      <${Tile} label="Waiting" value=${waiting.length} look=${waiting.length ? "warning" : ""} />
      <${Tile} label="Finished in the last hour" value=${sum(series.turns)} />
      <${Tile} label="Failed in the last hour" value=${sum(series.failed)} look=${sum(series.failed) ? "bad" : ""} />
    </dl>
    ${from > 0 && state === "live" && html`<p class="muted">Too many turns to show. This page covers the last ${durationText(now - from)}.</p>`}
    <div class="charts"><${Charts} series=${series} /></div>
    ${allows("sessions:read") && html`<${Approvals} changes=${changes} />`}
    <div class="overview-lists">
      <${TurnList} title="In progress" turns=${underWay} names=${names} now=${now} empty="No running turns." rest=${hrefOf("timeline/", { type: "turn.*" })} />
      <${TurnList} title="Recent failures" turns=${failed} names=${names} now=${now} empty="No failures in the last hour." rest=${hrefOf("timeline/", { type: "turn.failed" })} />
    </div>`;
}

function Charts({ series }) {
  const { minutes, turns, failed, tokens, median, slow } = series;
  const seconds = (value) => (value ? durationText(value * 1000) : "0");
  const middle = quantile(median.filter((value) => value !== null), 0.5);
  return html`
    <${Chart} title="Turns per minute" times=${minutes} summary=${`${numberText(sum(turns))} in the last hour, ${numberText(Math.max(0, ...turns))} in the busiest minute.`}
      series=${[{ label: "ended", values: turns, colour: "runtime", kind: "bars" }, { label: "failed", values: failed, colour: "danger", kind: "bars" }]} />
    <${Chart} title="Response time" times=${minutes} text=${seconds} summary=${middle === null ? "no responses in the last hour." : `${seconds(middle)} median.`}
      series=${[{ label: "median", values: median, colour: "runtime" }, { label: "slowest 5%", values: slow, colour: "artifacts" }]} />
    <${Chart} title="Tokens per minute" times=${minutes} summary=${`${numberText(sum(tokens))} in the last hour.`}
      series=${[{ label: "tokens", values: tokens, colour: "gateway", kind: "bars" }]} />`;
}

function Tile({ label, value, aside, look = "" }) {
  return html`
    <div class=${`tile card ${look}`}>
      <dt>${label}</dt>
      <dd><b>${numberText(value)}</b>${aside && html` <small>${aside}</small>`}</dd>
    </div>`;
}

function sum(values) {
  return values.reduce((total, value) => total + (value ?? 0), 0);
}
