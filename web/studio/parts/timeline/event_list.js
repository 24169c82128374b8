/** Events, a row each. */
import { html, useEffect, useState } from "../../../html.js";
import { eventText, isFailure, serviceOf } from "../../../model/event_text.js";
import { whenText } from "../../../model/moments.js";
import { timeOf } from "../../../model/times.js";
import { ServiceChip } from "../chips.js";
import { VirtualList } from "../virtual_list.js";

const WIDE_ROW = 32;
const NARROW_ROW = 52;
const NARROW = matchMedia("(max-width: 44rem)");

/** While details are open they follow the arrow keys; `Escape` closes them. */
export function EventList({ events, newestFirst, selected, onSelect, onClose }) {
  const [active, setActive] = useState(0);
  const narrow = useNarrow();
  const eventAt = (index) => events[newestFirst ? events.length - 1 - index : index];
  return html`
    <${VirtualList}
      role="grid"
      label="Events"
      count=${events.length}
      height=${narrow ? NARROW_ROW : WIDE_ROW}
      newestFirst=${newestFirst}
      active=${Math.min(active, Math.max(0, events.length - 1))}
      onActive=${(index) => (setActive(index), selected !== undefined && onSelect(eventAt(index)))}
      onKey=${(event) => event.key === "Escape" && onClose()}
      onOpen=${(index) => onSelect(eventAt(index))}
      rowKey=${(index) => eventAt(index).position}
      row=${(index, isActive) => html`
        <${EventRow}
          event=${eventAt(index)}
          index=${index}
          active=${isActive}
          selected=${selected === eventAt(index).position}
          onSelect=${(event) => (setActive(index), onSelect(event))}
        />`}
    />`;
}

function EventRow({ event, index, active, selected, onSelect }) {
  const service = serviceOf(event);
  const failed = isFailure(event);
  return html`
    <div
      class=${`event-row ${selected ? "selected" : ""} ${failed ? "failure" : ""}`}
      role="row"
      aria-rowindex=${index + 1}
      aria-selected=${selected}
      data-index=${index}
      tabindex=${active ? 0 : -1}
      onClick=${() => onSelect(event)}
    >
      <time role="gridcell" datetime=${event.time}>${whenText(timeOf(event.time))}</time>
      <span role="gridcell"><${ServiceChip} service=${service} /></span>
      <span role="gridcell" class="event-type">${event.type}</span>
      <span role="gridcell" class="event-text">${eventText(event)}</span>
      <span role="gridcell" class="event-position">${event.position}</span>
    </div>`;
}

function useNarrow() {
  const [narrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return narrow;
}
