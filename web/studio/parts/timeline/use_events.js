/** The events of a scope: those that there are, then those that come. */
import { read } from "../../../api/client.js";
import { followEvents } from "../../../api/follow.js";
import { useEffect, useRef, useState } from "../../../html.js";
import { newestEvents } from "../../../model/newest_events.js";

const RECENT = 500;
const MOST = 50_000;
const FLUSH_MS = 120;
// A timeline of many thousands takes longer to lay out, and its figures change less.
const EVENTS_PER_MS = 25;

/**
 * `{events, state, problem}`, oldest first. `state` is `loading`, `live` or `failed`. The scope is a query of
 * `GET /events/`; an empty one begins with what happened lately.
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

/** Resolves to true when it is to be read anew. */
async function collectOnce(scope, collecting, changed, signal) {
  const known = Object.keys(scope).some((name) => name !== "type");
  const page = (query) => read("/events/", { ...scope, ...query, limit: 200 }, { signal });
  const show = (events) => {
    collecting.events = [...events];
    changed();
  };
  const isEnough = (found) => found.length >= RECENT;
  // A part is shown where nothing is: what is shown while it is read anew is more.
  const onPart = (part) => collecting.state === "live" || show(part);
  const { events, next: after } = known ? await page({ after: 0 }) : await newestEvents(page, isEnough, { onPart });
  collecting.state = "live";
  show(events);
  return followEvents(scope, {
    after,
    signal,
    // Of these all is shown.
    ...(known ? { longestMs: Infinity } : {}),
    onEvent: ({ data }) => {
      collecting.events.push(data);
      changed();
    },
  });
}
