/** The timeline: the events of a request, a session, a turn or the whole company, by service and time. */
import { html, useEffect, useMemo, useState } from "../../html.js";
import { found, NO_WISH } from "../../model/events.js";
import { scaleOf } from "../../model/scale.js";
import { activityOf, traceOf } from "../../model/trace.js";
import { EventList, FindBar, useEvents } from "../parts/timeline/event_list.js";
import { Inspector } from "../parts/timeline/inspector.js";
import { ScopeForm, Toolbar } from "../parts/timeline/toolbar.js";
import { viewOf, Waterfall } from "../parts/timeline/waterfall.js";

const SCOPES = ["correlation_id", "session_id", "turn_id", "type"];
// The waterfall of a whole company only shows recent activity.
const MOST_DRAWN = 250;
const CLOCK_MS = 250;
const MANY = 2_000;
const NOTHING = { span: null, event: null };

export default function Timeline({ query }) {
  const scope = Object.fromEntries(SCOPES.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
  const isTrace = Object.keys(scope).some((name) => name !== "type");
  return html`<${Events} key=${JSON.stringify(scope)} scope=${scope} isTrace=${isTrace} />`;
}

function Events({ scope, isTrace }) {
  const { events: all, state, problem } = useEvents(scope);
  const [paused, setPaused] = useState(null);
  const [services, setServices] = useState(new Set());
  const [compress, setCompress] = useState(true);
  const [view, setView] = useState([0, 1]);
  const [selection, setSelection] = useState(NOTHING);
  const current = paused ?? all;
  const events = useMemo(() => chosen(current, services), [current, services]);
  const [wanted, setWanted] = useState(NO_WISH);
  const listed = useMemo(() => found(events, wanted), [events, wanted]);
  const drawn = useMemo(() => (isTrace ? events : events.slice(-MOST_DRAWN)), [events, isTrace]);
  const [now, setNow] = useState(Date.now());
  const trace = useMemo(() => drawnTrace(drawn, now, isTrace), [drawn, now, isTrace]);
  const scale = useMemo(() => trace && scaleOf(activityOf(trace, now), { compress }), [trace, now, compress]);
  useClock(trace?.running && !paused, drawn.length > MANY ? 4 * CLOCK_MS : CLOCK_MS, setNow);
  const selectedSpan = useMemo(() => find(trace, selection.span), [trace, selection.span]);
  const detail = selection.event || selectedSpan;
  const close = () => setSelection(NOTHING);
  return html`
    <div class="page timeline">
      <h1 tabindex="-1">Timeline</h1>
      <${ScopeForm} scope=${scope} />
      ${problem && html`<p class="problem" role="alert">${problem.message}</p>`}
      <${Toolbar}
        state=${state} isTrace=${isTrace} all=${current} shown=${events} waiting=${paused ? cameAfter(all, paused.at(-1)) : 0} trace=${trace}
        services=${services} onServices=${setServices}
        compress=${compress} onCompress=${(value) => (setCompress(value), setView([0, 1]))}
        view=${view} onView=${setView}
        paused=${paused !== null} onPause=${() => setPaused(paused ? null : all)}
      />
      ${events.length === 0 && html`<${Nothing} state=${state} isTrace=${isTrace} filtered=${current.length > 0} />`}
      <div class=${detail ? "timeline-body with-details" : "timeline-body"} hidden=${events.length === 0}>
        <section class="timeline-waterfall" aria-label="Waterfall">
          ${trace && html`
            <${Waterfall} trace=${trace} scale=${scale} now=${now} view=${view} onView=${setView}
              selected=${selection.span} onSelect=${(span) => setSelection({ span: span.id, event: null })} onClose=${close} />`}
        </section>
        <section class="timeline-events" aria-label="Timeline events">
          <${FindBar} wanted=${wanted} onWanted=${setWanted} shown=${listed.length} all=${events.length} />
          ${listed.length === 0 && html`<p class="empty">No matching events.</p>`}
          <${EventList} events=${listed} newestFirst=${!isTrace} selected=${selection.event?.position}
            onSelect=${(event) => setSelection({ span: null, event })} onClose=${close} />
        </section>
        ${detail && html`
          <${Inspector} span=${selectedSpan} event=${selection.event} now=${now}
            onEvent=${(event) => setSelection({ ...selection, event })}
            onZoom=${() => setView(viewOf(selectedSpan, scale, now))}
            onClose=${() => setSelection(selection.event && selection.span ? { ...selection, event: null } : NOTHING)} />`}
      </div>
    </div>`;
}

function cameAfter(events, last) {
  return events.length - 1 - events.findLastIndex(({ position }) => position <= (last?.position ?? 0));
}

/** Returns the trace to draw. For a whole company, the newest spans come first, as in the list of events. */
function drawnTrace(events, now, isTrace) {
  if (!events.length) return null;
  const trace = traceOf(events, now);
  return isTrace ? trace : { ...trace, roots: trace.roots.toReversed() };
}

function chosen(events, services) {
  return services.size ? events.filter(({ source }) => services.has(source.slice(source.lastIndexOf("/") + 1))) : events;
}

function find(trace, id) {
  if (!trace || !id) return null;
  const among = (spans) => {
    for (const span of spans) {
      const found = span.id === id ? span : among(span.children);
      if (found) return found;
    }
    return null;
  };
  return among(trace.roots);
}

/** Advances the current time while something is running. */
function useClock(running, interval, setNow) {
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [running, interval]);
}

function Nothing({ state, isTrace, filtered }) {
  if (state === "loading") return html`<p class="empty">Loading the timeline…</p>`;
  if (filtered) return html`<p class="empty">No events from these services.</p>`;
  if (state === "failed") return null;
  return html`<p class="empty">${isTrace ? "No events with this ID yet. New ones appear automatically." : "No events yet. New ones appear automatically."}</p>`;
}
