/** A row of the waterfall: the span's name at its depth, its bars on the track. */
import { html } from "../../../html.js";
import { LEGEND } from "../../../model/event_text.js";
import { drawnMarks, drawnSegments } from "../../../model/drawn.js";
import { durationText, numberText } from "../../../model/format.js";
import { Icon } from "../icon.js";
import { placeIn } from "./axis.js";

export function SpanRow({ item, index, active, selected, scale, view, width, now, onToggle, onSelect, onZoom }) {
  const { span, depth, open } = item;
  const parent = span.children.length > 0;
  const length = durationText((span.end ?? now) - span.start);
  return html`
    <div
      class=${`span-row ${selected ? "selected" : ""} ${span.state}`}
      role="treeitem"
      data-index=${index}
      tabindex=${active ? 0 : -1}
      aria-level=${depth + 1}
      aria-expanded=${parent ? open : undefined}
      aria-selected=${selected}
      onClick=${() => onSelect(span)}
      onDblClick=${() => onZoom(span)}
    >
      <div class="span-name" style=${{ paddingLeft: `${0.35 + depth * 0.9}rem` }}>
        ${parent
          ? html`<span class=${open ? "twist open" : "twist"} onClick=${(event) => (event.stopPropagation(), onToggle(span))}><${Icon} name="chevron" /></span>`
          : html`<span class="twist"></span>`}
        <i class=${`swatch of-${span.service}`}></i>
        <b>${span.label}</b>
        <small>${span.detail}</small>
        <span class="for-screen-readers">${span.service}, ${span.state}, ${length}</span>
      </div>
      <div class="span-track"><${Bars} span=${span} scale=${scale} view=${view} width=${width} now=${now} length=${length} /></div>
    </div>`;
}

function Bars({ span, scale, view, width, now, length }) {
  const place = (moment) => placeIn(view, scale.at(moment));
  const left = place(span.start);
  const right = place(span.end ?? now);
  if (right < -1 || left > 101) return null;
  const thin = span.children.length > 0 ? "thin" : "";
  return html`
    ${span.children.length > 0 && html`<span class="extent" style=${box(left, right)}></span>`}
    ${drawnSegments(span.segments, place, width).map(({ kind, left: a, right: b, length: long, count }, at) => html`
      <span key=${at} class=${`bar ${kind} ${thin} of-${span.service}`} style=${box(a, b)} title=${`${LEGEND[kind]}: ${durationText(long)}${count > 1 ? ` in ${numberText(count)}` : ""}`}></span>`)}
    ${drawnMarks(span.marks ?? [], place, width).map((a, at) => html`<span key=${`m${at}`} class=${`mark of-${span.service}`} style=${{ left: `${a}%` }}></span>`)}
    ${span.end === null && html`<span class="running" style=${{ left: `${Math.min(100, right)}%` }}></span>`}
    ${span.end !== span.start && html`<span class="length" aria-hidden="true" style=${{ left: `calc(${Math.min(100, Math.max(0, right))}% + 8px)` }}>${length}</span>`}`;
}

function box(left, right) {
  const from = Math.max(0, left);
  return { left: `${from}%`, width: `max(2px, ${Math.min(100, right) - from}%)` };
}
