/** Spans over all services against time: a tree that opens and closes, with an axis to zoom. */
import { html, useEffect, useMemo, useRef, useState } from "../../../html.js";
import { LEGEND } from "../../../model/event_text.js";
import { walk } from "../../../model/trace.js";
import { VirtualList } from "../virtual_list.js";
import { Axis, placeIn, spanStyle, ticksIn } from "./axis.js";
import { SpanRow } from "./span_row.js";

const ROW = 28;
const MOST_OPEN = 400;

/** While details are open they follow the arrow keys; `Escape` closes them. */
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

/** The part of the scale that a span takes, with a little around it. */
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
