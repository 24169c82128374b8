/** Streams of the tab: while one waits for a connection, the frame says so; the end of its key ends the session. */
import { send } from "./client.js";
import { setWaiting } from "./network.js";
import { endWith } from "./session.js";
import { whileSeen } from "./sight.js";
import { beginning, followBy } from "./streams.js";

const LONGEST_AWAY_MS = 180_000;

/** Follows a stream, as `followBy` does, while the tab is seen. */
export async function follow({ signal, open, ...options }) {
  const place = beginning();
  // What begins something is to arrive, whoever looks.
  const mayEnd = () => (open(place.lastId).method ?? "GET") === "GET";
  try {
    return await whileSeen((inSight) => followBy(send, { ...options, open, place, onWaiting: setWaiting, signal: inSight }), signal, { mayEnd });
  } catch (problem) {
    endWith(problem);
    throw problem;
  }
}

/**
 * Follows the timeline after a position, or from now on. Resolves to true after minutes out of sight or without a connection:
 * there may be more of what came meanwhile than of what is shown, so that who follows reads anew.
 */
export function followEvents(query, { after, longestMs = LONGEST_AWAY_MS, ...options }) {
  const open = (lastId) => ({ path: "/events/", query: lastId === null ? { ...query, after } : query });
  return follow({ ...options, open, longestMs });
}
