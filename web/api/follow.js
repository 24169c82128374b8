/** Follows streams in the tab. The frame shows when one of them reconnects, and a rejected key ends the session. */
import { allows, endWith, send, setWaiting } from "./client.js";
import { beginning, followBy } from "./requests.js";

const LONGEST_AWAY_MS = 180_000;

/** Follows a stream like `followBy`, while the tab is visible. */
export async function follow({ signal, open, ...options }) {
  const place = beginning();
  // A stream that starts a turn must run even in a hidden tab.
  const mayEnd = () => (open(place.lastId).method ?? "GET") === "GET";
  try {
    return await whileSeen((inSight) => followBy(send, { ...options, open, place, onWaiting: setWaiting, signal: inSight }), signal, { mayEnd });
  } catch (problem) {
    endWith(problem);
    throw problem;
  }
}

/**
 * Follows the timeline from a position, or from now on. Resolves to true after minutes in the background or without a
 * connection. The caller should then read everything again.
 */
export function followEvents(query, { after, longestMs = LONGEST_AWAY_MS, ...options }) {
  const open = (lastId) => ({ path: "/events/", query: lastId === null ? { ...query, after } : query });
  return follow({ ...options, open, longestMs });
}

const AWAY_MS = 5_000;

/**
 * Runs `run(signal)`, aborts it once the tab has been hidden for a while and `mayEnd()` allows it, and runs it again
 * when the tab is visible. Resolves with the result of the last run.
 */
export async function whileSeen(run, signal, { awayMs = AWAY_MS, mayEnd = () => true } = {}) {
  while (!signal.aborted) {
    const { away, end } = watch(awayMs, mayEnd);
    try {
      const result = await run(AbortSignal.any([signal, away]));
      if (!away.aborted) return result;
    } finally {
      end();
    }
    await seen(signal);
  }
  return undefined;
}

function watch(awayMs, mayEnd) {
  const stop = new AbortController();
  let timer = 0;
  const leave = () => {
    if (mayEnd()) stop.abort();
    else timer = setTimeout(leave, awayMs);
  };
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(leave, awayMs);
  };
  look();
  document.addEventListener("visibilitychange", look);
  const end = () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
  };
  return { away: stop.signal, end };
}

/** Resolves when the tab is visible or the signal aborts. */
function seen(signal) {
  const done = new AbortController();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      done.abort();
      resolve();
    };
    document.addEventListener("visibilitychange", look, { signal: done.signal });
    signal.addEventListener("abort", look, { signal: done.signal });
    look();
  });
}

const KINDS = ["agent", "api_key", "budget", "collection", "connection", "file", "knowledge_base", "secret", "session", "toolset", "webhook"];
const TYPES = KINDS.map((kind) => `${kind}.*`).join();
const followers = new Set();
let reading = null;

/** Calls `changed` after events of these kinds, such as `["agent"]`, until the returned function is called. */
export function followChanges(kinds, changed) {
  if (!allows("events:read")) return () => {};
  const follower = { kinds, changed };
  followers.add(follower);
  if (!reading) {
    reading = new AbortController();
    read(reading.signal);
  }
  return () => {
    followers.delete(follower);
    if (followers.size) return;
    reading?.abort();
    reading = null;
  };
}

async function read(signal) {
  const tell = (kind) => {
    for (const { kinds, changed } of [...followers]) if (!kind || kinds.includes(kind)) changed();
  };
  const onEvent = ({ data: { type } }) => void tell(type.split(".")[0]);
  try {
    // After a long absence, anything may have changed.
    while (await followEvents({ type: TYPES }, { signal, onEvent })) tell();
  } catch (problem) {
    // Lists aren't updated until the next caller starts following again.
    console.info("Couldn't follow changes made elsewhere.", problem.message);
    if (reading?.signal === signal) reading = null;
  }
}
