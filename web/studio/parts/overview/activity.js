/** The last hour's activity, which is read once and then followed. */
import { allows, get, read } from "../../../api/client.js";
import { followEvents } from "../../../api/follow.js";
import { sleep } from "../../../api/requests.js";
import { html, useEffect, useRef, useState } from "../../../html.js";
import { Activity, ACTIVITY_TYPES, HOUR_MS } from "../../../model/activity.js";
import { newestEvents } from "../../../model/events.js";
import { durationText, momentText, timeOf } from "../../../model/format.js";
import { hrefOf } from "../../router.js";
import { useLoaded } from "../hooks.js";
import { StatusChip } from "../views.js";

const PAINT_MS = 250;
const CLOCK_MS = 5_000;
// Enough for about two thousand turns. In a busier hour, the oldest turns are left out.
const PAGES = 25;

/** Returns `{activity, from, now, state, problem}`. The data is complete from the time `from` on. */
export function useActivity() {
  const [shown, setShown] = useState({ activity: new Activity(), from: 0, now: Date.now(), state: "loading", problem: null });
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    let activity = new Activity();
    let timer = 0;
    // While everything is loaded again, the page already shows more than the first part would.
    let isShown = false;
    const change = (fields = {}) => !signal.aborted && setShown((before) => ({ ...before, ...fields, activity, now: Date.now() }));
    const later = () => (timer ||= setTimeout(() => ((timer = 0), change()), PAINT_MS));
    /** Resolves to true when everything has to be read again. */
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

const NEWEST = 100;
// If more sessions are missing, the newest ones are read again instead.
const FEW = 3;
const PAUSE_MS = 750;
const UNKNOWN = "Session";

/** Returns names by session id. The names of `sessionIds` are added as they load. */
export function useNames(sessionIds) {
  const [names, setNames] = useState(new Map());
  const wanted = useRef([]);
  const wake = useRef(() => {});
  wanted.current = sessionIds;
  useEffect(() => {
    if (!allows("sessions:read")) return undefined;
    const stop = new AbortController();
    let newest = new Map();
    let others = new Map();
    // Sessions on the page that weren't among the newest ones.
    let old = new Set();
    const unknown = () => wanted.current.filter((each) => !newest.has(each) && !others.has(each));
    const readNewest = async () => {
      const { sessions } = await read("/sessions/", { limit: NEWEST }, stop);
      newest = new Map(sessions.map((each) => [each.session_id, nameOf(each)]));
      old = new Set(unknown());
    };
    const readOne = async (id) => others.set(id, await read(`/sessions/${id}/`, {}, stop).then(nameOf, () => UNKNOWN));
    const follow = async () => {
      await readNewest();
      while (!stop.signal.aborted) {
        others = new Map(wanted.current.filter((each) => others.has(each)).map((each) => [each, others.get(each)]));
        setNames(new Map([...newest, ...others]));
        if (!unknown().length) await new Promise((resolve) => (wake.current = resolve));
        await sleep(PAUSE_MS, stop.signal);
        const missing = unknown();
        if (missing.filter((each) => !old.has(each)).length > FEW) await readNewest();
        else if (missing.length) await readOne(missing[0]);
      }
    };
    // With a key that can't read sessions, turns are shown without their agents.
    follow().catch(() => null);
    return () => {
      stop.abort();
      wake.current();
    };
  }, []);
  useEffect(() => wake.current(), [sessionIds.join()]);
  return names;
}

function nameOf({ agent_config: config }) {
  return config?.name ?? UNKNOWN;
}

export const MOST = 8;

/** Running or failed turns with links to their details. `rest`: the address of the full list. */
export function TurnList({ title, turns, names, now, empty, rest }) {
  return html`
    <section class="card turn-list" aria-label=${title}>
      <h2>${title}</h2>
      ${turns.length === 0 && html`<p class="muted">${empty}</p>`}
      <ul>
        ${turns.slice(0, MOST).map((turn) => html`
          <li key=${turn.id}>
            <p>
              <${StatusChip} status=${turn.status} />
              <b>${names.get(turn.sessionId) ?? "Session"}</b>
              <span class="muted">${turn.ended ? `${durationText(now - turn.ended)} ago` : `for ${durationText(Math.max(0, now - turn.begun))}`}</span>
              <a href=${hrefOf("timeline/", { turn_id: turn.id })}>Timeline</a>
              <a href=${hrefOf(`chat/${turn.sessionId}/`)}>Conversation</a>
            </p>
            ${turn.error && html`<p class="turn-error">${turn.error}</p>`}
          </li>`)}
      </ul>
      ${turns.length > MOST && html`<p><a href=${rest}>and ${turns.length - MOST} more</a></p>`}
    </section>`;
}

const LIMIT = 100;

/** Used-up budgets. New turns are rejected until the budgets renew or change. */
export function UsedUpBudgets() {
  const { value: page } = useLoaded((signal) => get("/budgets/", { limit: LIMIT }, { signal }), "", { changes: "budget" });
  const usedUp = page?.budgets.filter(({ exceeded }) => exceeded) ?? [];
  if (!usedUp.length) return null;
  return html`
    <div class="problem" role="alert">
      ${usedUp.map(({ id, description, user_id: user, key_id: key, renews_at: renews }) => html`
        <p key=${id}>
          <b>${description || `${user ? "A user's" : key ? "A key's" : "The company's"} budget`}</b> is used up. Turns that it
          covers are rejected until ${renews ? momentText(renews) : "the budget is changed"}. <a href=${hrefOf("usage/")}>Budgets</a>
        </p>`)}
    </div>`;
}
