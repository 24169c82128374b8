/** The time axis: ticks, cut gaps, and a part to zoom into by dragging over it. */
import { html, useRef, useState } from "../../../html.js";
import { durationText } from "../../../model/format.js";

const LEAST_DRAG = 0.01;
const HALF_LETTER = 3.4;

export function placeIn([from, to], place) {
  return ((place - from) / (to - from)) * 100;
}

export function Axis({ scale, view, onView, width }) {
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
          <span class=${text ? "axis-gap named" : "axis-gap"} key=${gap.from} style=${spanStyle(view, gap.left, gap.right)} title=${`${durationText(gap.to - gap.from)} without an event`}>
            <b>${text}</b>
          </span>`)}
        ${drag && html`<span class="brush" style=${spanStyle(view, Math.min(...drag), Math.max(...drag))}></span>`}
      </div>
    </div>`;
}

export function spanStyle(view, from, to) {
  const left = placeIn(view, from);
  return { left: `${left}%`, width: `${placeIn(view, to) - left}%` };
}

/** Ticks and gaps in sight, with their texts as far as these do not run into each other; gaps go first. */
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

/** All ticks, whether there is room for their texts or not. */
export function ticksIn(scale, view, width) {
  return scale.ticks(Math.max(2, Math.floor(width / 80)), ...view);
}
