/** Spans of all services over time: a collapsible tree, with an axis to zoom. */
import { html, useEffect, useMemo, useRef, useState } from "../../../html.js";
import { LEGEND } from "../../../model/events.js";
import { durationText, numberText } from "../../../model/format.js";
import { drawnMarks, drawnSegments } from "../../../model/scale.js";
import { walk } from "../../../model/trace.js";
import { Icon } from "../views.js";
import { VirtualList } from "../virtual_list.js";

const ROW = 28;
const MOST_OPEN = 400;

/** The waterfall. Arrow keys change the span whose details are open, and `Escape` closes them. */
export function Waterfall({ trace, scale, now, view, onView, selected, onSelect, onClose }) {
  const [toggled, setToggled] = useState(new Map());
  const [active, setActive] = useState(0);
  const crowded = useMemo(() => [...walk(trace.roots)].length > MOST_OPEN, [trace]);
  const isOpen = (span) => toggled.get(span.id) ?? (!crowded || span.kind === "session");
  const rows = flattened(trace.roots, isOpen);
  const [box, track] = useTrackWidth();
  const toggle = (span, open = !isOpen(span)) => setToggled(new Map(toggled).set(span.id, open));
  const onKey = (event) => {
    if (event.key === "Escape") onClose();
    const item = rows[active];
    if (!item?.span.children.length) return;
    if (event.key === "ArrowRight" && !item.open) toggle(item.span, true);
    else if (event.key === "ArrowLeft" && item.open) toggle(item.span, false);
    else return;
    event.preventDefault();
  };
  return html`
    <div class="waterfall" ref=${box}>
      <${Axis} scale=${scale} view=${view} onView=${onView} width=${track} />
      <div class="gaps" aria-hidden="true">
        ${ticksIn(scale, view, track).map(({ place, after }) => html`<i key=${after} style=${{ left: `${placeIn(view, place)}%` }}></i>`)}
        ${scale.gaps.map((gap) => html`<span key=${gap.from} style=${spanStyle(view, gap.left, gap.right)}></span>`)}
      </div>
      <${VirtualList}
        role="tree"
        label="Spans"
        count=${rows.length}
        height=${ROW}
        active=${Math.min(active, Math.max(0, rows.length - 1))}
        onActive=${(index) => (setActive(index), selected && onSelect(rows[index].span))}
        onOpen=${(index) => onSelect(rows[index].span)}
        onKey=${onKey}
        rowKey=${(index) => rows[index].span.id}
        row=${(index, isActive) => html`
          <${SpanRow}
            item=${rows[index]}
            index=${index}
            active=${isActive}
            selected=${selected === rows[index].span.id}
            scale=${scale}
            view=${view}
            width=${track}
            now=${now}
            onToggle=${toggle}
            onSelect=${(span) => (setActive(index), onSelect(span))}
            onZoom=${(span) => onView(viewOf(span, scale, now))}
          />`}
      />
      <${Legend} trace=${trace} />
    </div>`;
}

function flattened(spans, isOpen, depth = 0, rows = []) {
  for (const span of spans) {
    const open = span.children.length > 0 && isOpen(span);
    rows.push({ span, depth, open });
    if (open) flattened(span.children, isOpen, depth + 1, rows);
  }
  return rows;
}

function Legend({ trace }) {
  const used = new Set([...walk(trace.roots)].flatMap((span) => span.segments.map(({ kind }) => kind)));
  const shown = Object.entries(LEGEND).filter(([kind]) => used.has(kind));
  return html`<p class="legend">${shown.map(([kind, text]) => html`<span key=${kind}><i class=${`bar ${kind} of-runtime`}></i>${text}</span>`)}</p>`;
}

/** Returns the part of the scale that a span covers, with a small margin. */
export function viewOf(span, scale, now) {
  const [from, to] = [scale.at(span.start), scale.at(span.end ?? now)];
  const around = Math.max((to - from) * 0.1, 0.0005);
  return [Math.max(0, from - around), Math.min(1, to + around)];
}

function useTrackWidth() {
  const box = useRef();
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(box.current?.querySelector(".axis-track").clientWidth ?? 600));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return [box, width];
}

const LEAST_DRAG = 0.01;
const HALF_LETTER = 3.4;

function placeIn([from, to], place) {
  return ((place - from) / (to - from)) * 100;
}

/** The time axis: ticks, shortened gaps, and a range to zoom into by dragging. */
function Axis({ scale, view, onView, width }) {
  const track = useRef();
  const [drag, setDrag] = useState(null);
  const placeOf = (event) => {
    const { left, width: pixels } = track.current.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - left) / pixels));
    return view[0] + share * (view[1] - view[0]);
  };
  const begin = (event) => {
    if (event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag([placeOf(event), placeOf(event)]);
  };
  const move = (event) => drag && setDrag([drag[0], placeOf(event)]);
  const end = () => {
    if (drag && Math.abs(drag[1] - drag[0]) > LEAST_DRAG * (view[1] - view[0])) onView([Math.min(...drag), Math.max(...drag)]);
    setDrag(null);
  };
  const { ticks, gaps } = labels(scale, view, width);
  return html`
    <div class="axis" aria-hidden="true">
      <div class="axis-label">Drag to zoom</div>
      <div class="axis-track" ref=${track} onPointerDown=${begin} onPointerMove=${move} onPointerUp=${end} onDblClick=${() => onView([0, 1])}>
        ${ticks.map(({ place, after }) => html`<span class="tick" key=${after} style=${{ left: `${placeIn(view, place)}%` }}>${after ? `+${durationText(after)}` : "0"}</span>`)}
        ${gaps.map(({ gap, text }) => html`
          <span class=${text ? "axis-gap named" : "axis-gap"} key=${gap.from} style=${spanStyle(view, gap.left, gap.right)} title=${`${durationText(gap.to - gap.from)} without events`}>
            <b>${text}</b>
          </span>`)}
        ${drag && html`<span class="brush" style=${spanStyle(view, Math.min(...drag), Math.max(...drag))}></span>`}
      </div>
    </div>`;
}

function spanStyle(view, from, to) {
  const left = placeIn(view, from);
  return { left: `${left}%`, width: `${placeIn(view, to) - left}%` };
}

/** Returns visible ticks and gaps, with labels where they don't overlap. Gaps have priority. */
function labels(scale, view, width) {
  const pixel = (place) => (placeIn(view, place) / 100) * width;
  const taken = [];
  const free = (from, to) => from > -4 && from < width && taken.every(([a, b]) => to < a || from > b) && taken.push([from, to]);
  const gaps = scale.gaps
    .filter((gap) => gap.right >= view[0] && gap.left <= view[1])
    .map((gap) => {
      const text = durationText(gap.to - gap.from);
      const middle = pixel((gap.left + gap.right) / 2);
      const half = text.length * HALF_LETTER + 4;
      return { gap, text: free(middle - half, middle + half) ? text : "" };
    });
  const ticks = ticksIn(scale, view, width).filter(({ place, after }) => {
    const left = pixel(place);
    return free(left - 2, left + durationText(after).length * HALF_LETTER * 2 + 14);
  });
  return { ticks, gaps };
}

/** Returns all ticks, even those without room for a label. */
function ticksIn(scale, view, width) {
  return scale.ticks(Math.max(2, Math.floor(width / 80)), ...view);
}

/** A row of the waterfall: the span's name, indented by depth, and its bars. */
function SpanRow({ item, index, active, selected, scale, view, width, now, onToggle, onSelect, onZoom }) {
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
