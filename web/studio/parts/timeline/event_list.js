/** A list of events, one per row. */
import { read } from "../../../api/client.js";
import { followEvents } from "../../../api/follow.js";
import { html, useEffect, useRef, useState } from "../../../html.js";
import { eventText, isFailure, newestEvents, serviceOf, whenText } from "../../../model/events.js";
import { numberText, timeOf } from "../../../model/format.js";
import { ServiceChip } from "../views.js";
import { VirtualList } from "../virtual_list.js";

const WIDE_ROW = 32;
const NARROW_ROW = 52;
const NARROW = matchMedia("(max-width: 44rem)");

/** The list. Arrow keys change the event whose details are open, and `Escape` closes them. */
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

const TYPING_MS = 200;

/** Searches the list. The browser's own search misses rows that are out of view. */
export function FindBar({ wanted, onWanted, shown, all }) {
  const [text, setText] = useState(wanted.text);
  useEffect(() => {
    if (text === wanted.text) return undefined;
    const timer = setTimeout(() => onWanted({ ...wanted, text }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, wanted]);
  return html`
    <div class="find-bar" role="search" aria-label="Find events">
      <input type="search" aria-label="Find in events" placeholder="Find in events and payloads" spellcheck="false" autocomplete="off"
        value=${text} onInput=${(event) => setText(event.target.value)} />
      <button class="button small" aria-pressed=${wanted.failures} onClick=${() => onWanted({ ...wanted, failures: !wanted.failures })}>Failures</button>
      <span class="muted" role="status">${shown === all ? "" : `${numberText(shown)} of ${numberText(all)}`}</span>
    </div>`;
}

const RECENT = 500;
const MOST = 50_000;
const FLUSH_MS = 120;
// Lists of many thousands take longer to lay out, so they're updated less often.
const EVENTS_PER_MS = 25;

/**
 * Returns `{events, state, problem}`, with the oldest events first. `state` is `loading`, `live` or `failed`. `scope`
 * is a query of `GET /events/`. An empty scope starts with recent events.
 */
export function useEvents(scope) {
  const [shown, setShown] = useState({ events: [], state: "loading", problem: null });
  const key = JSON.stringify(scope);
  const buffer = useRef();
  useEffect(() => {
    const stop = new AbortController();
    const collecting = { events: [], timer: 0, state: "loading", problem: null };
    buffer.current = collecting;
    const flush = () => {
      collecting.timer = 0;
      if (stop.signal.aborted) return;
      if (collecting.events.length > MOST) collecting.events.splice(0, collecting.events.length - MOST);
      setShown({ events: [...collecting.events], state: collecting.state, problem: collecting.problem });
    };
    const later = () => (collecting.timer ||= setTimeout(flush, FLUSH_MS + collecting.events.length / EVENTS_PER_MS));
    setShown({ events: [], state: "loading", problem: null });
    collect(scope, collecting, later, stop.signal).catch((problem) => {
      Object.assign(collecting, { state: "failed", problem });
      later();
    });
    return () => {
      stop.abort();
      clearTimeout(collecting.timer);
    };
  }, [key]);
  return shown;
}

async function collect(...given) {
  while (await collectOnce(...given));
}

/** Resolves to true when everything has to be read again. */
async function collectOnce(scope, collecting, changed, signal) {
  const known = Object.keys(scope).some((name) => name !== "type");
  const page = (query) => read("/events/", { ...scope, ...query, limit: 200 }, { signal });
  const show = (events) => {
    collecting.events = [...events];
    changed();
  };
  const isEnough = (found) => found.length >= RECENT;
  // Show a part only if the list is empty. Otherwise, the list on screen is longer than the part.
  const onPart = (part) => collecting.state === "live" || show(part);
  const { events, next: after } = known ? await page({ after: 0 }) : await newestEvents(page, isEnough, { onPart });
  collecting.state = "live";
  show(events);
  return followEvents(scope, {
    after,
    signal,
    // A trace is always read completely.
    ...(known ? { longestMs: Infinity } : {}),
    onEvent: ({ data }) => {
      collecting.events.push(data);
      changed();
    },
  });
}
