/** The timeline's figures, and controls for its display. */
import { html, useEffect, useState } from "../../../html.js";
import { serviceOf } from "../../../model/events.js";
import { countText, durationText, numberText } from "../../../model/format.js";
import { go } from "../../router.js";
import { Icon } from "../views.js";

const SERVICES = ["gateway", "registry", "runtime", "ingestion", "artifacts"];
const FACTOR = 1.8;

export function Toolbar({ state, isTrace, all, shown, waiting, trace, services, onServices, compress, onCompress, view, onView, paused, onPause }) {
  const counts = new Map();
  for (const event of all) counts.set(serviceOf(event), (counts.get(serviceOf(event)) ?? 0) + 1);
  const toggle = (service) => {
    const next = new Set(services);
    if (!next.delete(service)) next.add(service);
    onServices(next);
  };
  return html`
    <div class="toolbar">
      <p class="figures" role="status">
        <span class=${state === "live" && !paused ? "dot good" : "dot"} aria-hidden="true"></span>
        <b>${state === "live" ? (paused ? `Paused${waiting ? `, ${numberText(waiting)} more` : ""}` : "Live") : state === "loading" ? "Loading" : "Stopped"}</b>
        <span>${countText(shown.length, "event")}</span>
        ${trace && isTrace && html`<${Totals} trace=${trace} />`}
      </p>
      <div class="services" role="group" aria-label="Services">
        ${SERVICES.filter((service) => counts.has(service)).map((service) => html`
          <button key=${service} class=${`service-filter of-${service}`} aria-pressed=${services.has(service)} onClick=${() => toggle(service)}>
            ${service} <small>${numberText(counts.get(service))}</small>
          </button>`)}
      </div>
      <div class="tools">
        <button class="button small" aria-pressed=${compress} onClick=${() => onCompress(!compress)}>Collapse idle time</button>
        <button class="button small" aria-label="Zoom in" onClick=${() => onView(zoomed(view, 1 / FACTOR))}>+</button>
        <button class="button small" aria-label="Zoom out" disabled=${isWhole(view)} onClick=${() => onView(zoomed(view, FACTOR))}>−</button>
        <button class="button small" aria-label="Move left" disabled=${view[0] <= 0} onClick=${() => onView(moved(view, -0.3))}>‹</button>
        <button class="button small" aria-label="Move right" disabled=${view[1] >= 1} onClick=${() => onView(moved(view, 0.3))}>›</button>
        <button class="button small" disabled=${isWhole(view)} onClick=${() => onView([0, 1])}>Fit</button>
        <button class="button small" aria-pressed=${paused} onClick=${onPause}><${Icon} name="pause" />Pause</button>
      </div>
    </div>`;
}

function Totals({ trace }) {
  const { waited, people, lost, model, tools, work } = trace.totals;
  const parts = [
    ["took", trace.end - trace.start], ["waited", waited], ["waited for people", people], ["lost", lost], ["model", model], ["tools", tools],
    ["processing", work],
  ];
  return parts.filter(([, length]) => length > 0).map(([name, length]) => html`<span key=${name}>${name} <b>${durationText(length)}</b></span>`);
}

function isWhole([from, to]) {
  return from <= 0 && to >= 1;
}

function zoomed([from, to], factor) {
  const middle = (from + to) / 2;
  const half = Math.min(0.5, ((to - from) * factor) / 2);
  return within(middle - half, middle + half);
}

function moved([from, to], share) {
  const by = (to - from) * share;
  return within(from + by, to + by);
}

function within(from, to) {
  const shift = from < 0 ? -from : to > 1 ? 1 - to : 0;
  return [Math.max(0, from + shift), Math.min(1, to + shift)];
}

const FIELDS = [
  { name: "correlation_id", label: "Correlation ID", placeholder: "any" },
  { name: "session_id", label: "Session ID", placeholder: "any" },
  { name: "turn_id", label: "Turn ID", placeholder: "any" },
  { name: "type", label: "Type", placeholder: "turn.*, artifact.failed" },
];

/** The form for the scope: the events of a request, a session, a turn, a type, or the whole company. */
export function ScopeForm({ scope }) {
  const [values, setValues] = useState(scope);
  useEffect(() => setValues(scope), [JSON.stringify(scope)]);
  const submit = (event) => {
    event.preventDefault();
    const given = Object.entries(values).map(([name, value]) => [name, value.trim()]);
    go("timeline/", Object.fromEntries(given));
  };
  return html`
    <form class="scope-form" role="search" onSubmit=${submit}>
      ${FIELDS.map(({ name, label, placeholder }) => html`
        <div key=${name} class=${name}>
          <label for=${`scope-${name}`}>${label}</label>
          <input id=${`scope-${name}`} value=${values[name] ?? ""} placeholder=${placeholder} spellcheck="false" autocomplete="off"
            onInput=${(event) => setValues({ ...values, [name]: event.target.value })} />
        </div>`)}
      <button class="button primary">Show</button>
      <button class="button" type="button" hidden=${Object.keys(scope).length === 0} onClick=${() => go("timeline/")}>All events</button>
    </form>`;
}
