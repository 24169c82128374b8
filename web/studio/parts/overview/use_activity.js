/** The activity of the last hour, read once and then followed. */
import { read } from "../../../api/client.js";
import { followEvents } from "../../../api/follow.js";
import { useEffect, useState } from "../../../html.js";
import { Activity, ACTIVITY_TYPES, HOUR_MS } from "../../../model/activity.js";
import { newestEvents } from "../../../model/newest_events.js";
import { timeOf } from "../../../model/times.js";

const PAINT_MS = 250;
const CLOCK_MS = 5_000;
// About two thousand turns; of a busier hour only the end is shown.
const PAGES = 25;

/** `{activity, from, now, state, problem}`; `from` is the moment from which on everything is known. */
export function useActivity() {
  const [shown, setShown] = useState({ activity: new Activity(), from: 0, now: Date.now(), state: "loading", problem: null });
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    let activity = new Activity();
    let timer = 0;
    // While it is read anew, what is shown is more than a part.
    let isShown = false;
    const change = (fields = {}) => !signal.aborted && setShown((before) => ({ ...before, ...fields, activity, now: Date.now() }));
    const later = () => (timer ||= setTimeout(() => ((timer = 0), change()), PAINT_MS));
    /** Resolves to true when it is to be read anew. */
    const run = async () => {
      const since = Date.now() - HOUR_MS;
      const page = (query) => read("/events/", { type: ACTIVITY_TYPES, ...query, limit: 200 }, { signal });
      const isBefore = (events) => events.length > 0 && timeOf(events.at(-1).time) < since;
      const show = (events, state, isCut) => {
        activity = new Activity();
        for (const event of events) activity.take(event);
        change({ state, from: isCut && events.length ? timeOf(events[0].time) : 0 });
      };
      const onPart = (part) => isShown || show(part, "loading", true);
      const { events, next, isCut } = await newestEvents(page, isBefore, { pages: PAGES, onPart });
      show(events, "live", isCut);
      isShown = true;
      return followEvents({ type: ACTIVITY_TYPES }, {
        after: next,
        signal,
        onEvent: ({ data }) => {
          activity.take(data);
          later();
        },
      });
    };
    const go = async () => {
      while (await run());
    };
    go().catch((problem) => problem.name !== "AbortError" && change({ state: "failed", problem }));
    const clock = setInterval(() => {
      activity.forget(Date.now());
      change();
    }, CLOCK_MS);
    return () => {
      stop.abort();
      clearTimeout(timer);
      clearInterval(clock);
    };
  }, []);
  return shown;
}
