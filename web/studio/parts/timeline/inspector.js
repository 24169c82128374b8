/** Details of the selection: a span's times, arguments and events, or an event's payload. */
import { html, useEffect, useRef } from "../../../html.js";
import { exactText, LEGEND, serviceOf } from "../../../model/events.js";
import { durationText, numberText, timeOf } from "../../../model/format.js";
import { hrefOf } from "../../router.js";
import { CopyButton } from "../forms.js";
import { Icon, JsonView, ServiceChip } from "../views.js";

export function Inspector({ span, event, now, onEvent, onZoom, onClose }) {
  const box = useRef();
  const shown = span?.id ?? event?.position;
  useEffect(() => {
    box.current?.scrollTo(0, 0);
  }, [shown]);
  const close = (pressed) => pressed.key === "Escape" && onClose();
  return html`
    <aside class="inspector" aria-label="Details" ref=${box} onKeyDown=${close}>
      <button class="button small close" onClick=${onClose}><${Icon} name="close" />Close</button>
      ${event ? html`<${EventDetails} event=${event} />` : html`<${SpanDetails} span=${span} now=${now} onEvent=${onEvent} onZoom=${onZoom} />`}
    </aside>`;
}

function EventDetails({ event }) {
  return html`
    <h2>${event.type}</h2>
    <dl class="facts">
      <dt>Service</dt><dd><${ServiceChip} service=${serviceOf(event)} /></dd>
      <dt>Time</dt><dd><time datetime=${event.time} title=${`${event.time} (UTC)`}>${exactText(timeOf(event.time))}</time></dd>
      <dt>Position</dt><dd>${numberText(event.position)}</dd>
      <${Id} name="Correlation" value=${event.correlation_id} query="correlation_id" />
      <${Id} name="Session" value=${event.session_id} query="session_id" />
      <${Id} name="Turn" value=${event.turn_id} query="turn_id" />
      <dt>Subject</dt><dd><code>${event.subject}</code>, event ${event.sequence}</dd>
      ${event.causation_id && html`<dt>Caused by</dt><dd><code>${event.causation_id}</code></dd>`}
    </dl>
    <div class="payload-head"><h3>Payload</h3><${CopyButton} text=${() => JSON.stringify(event.data, null, 2)} /></div>
    <${JsonView} value=${event.data} label="Payload" />`;
}

function Id({ name, value, query }) {
  if (!value) return null;
  return html`<dt>${name}</dt><dd><a href=${hrefOf("timeline/", { [query]: value })}><code>${value}</code></a></dd>`;
}

function SpanDetails({ span, now, onEvent, onZoom }) {
  const times = timesOf(span);
  return html`
    <h2>${span.label} <small class="muted">${span.detail}</small></h2>
    <dl class="facts">
      <dt>Service</dt><dd><${ServiceChip} service=${span.service} /></dd>
      <dt>State</dt><dd class=${`state ${span.state}`}>${span.state}</dd>
      <dt>Started</dt><dd>${exactText(span.start)}</dd>
      <dt>Duration</dt><dd>${durationText((span.end ?? now) - span.start)}${span.end === null ? " so far" : ""}</dd>
      ${times.map(([kind, length]) => html`<dt key=${kind}><i class=${`bar ${kind} of-${span.service}`}></i>${LEGEND[kind]}</dt><dd>${durationText(length)}</dd>`)}
      ${span.usage && html`<dt>Tokens</dt><dd>${numberText(span.usage.input_tokens)} in, ${numberText(span.usage.output_tokens)} out</dd>`}
    </dl>
    <p class="actions"><button class="button small" onClick=${onZoom}>Zoom to span</button></p>
    ${span.problem && html`<p class="problem">${span.problem}</p>`}
    ${span.arguments && html`<h3>Arguments</h3><${JsonView} value=${span.arguments} label="Arguments" />`}
    ${span.result && html`<h3>Result</h3><pre class="json" tabindex="0" role="region" aria-label="Result">${span.result}</pre>`}
    ${span.events.length > 0 && html`
      <h3>${span.events.length === 1 ? "Event" : `${span.events.length} events`}</h3>
      <ul class="span-events">
        ${span.events.slice(0, 200).map((event) => html`
          <li key=${event.position}>
            <button onClick=${() => onEvent(event)}><time>+${durationText(timeOf(event.time) - span.start)}</time> ${event.type}</button>
          </li>`)}
      </ul>`}`;
}

function timesOf(span) {
  const sums = new Map();
  for (const { kind, from, to } of span.segments) sums.set(kind, (sums.get(kind) ?? 0) + to - from);
  return [...sums];
}
