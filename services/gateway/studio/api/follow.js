/** Streams of the tab: while one waits for a connection, the frame says so; the end of its key ends the session. */
import { send } from "./client.js";
import { setWaiting } from "./network.js";
import { endWith } from "./session.js";
import { whileSeen } from "./sight.js";
import { followBy } from "./streams.js";

export async function follow({ signal, onEvent, ...options }) {
  let lastId = null;
  const noted = (event) => {
    lastId = event.id ?? lastId;
    return onEvent(event);
  };
  try {
    await whileSeen((inSight) => followBy(send, { ...options, onEvent: noted, onWaiting: setWaiting, lastId, signal: inSight }), signal);
  } catch (problem) {
    endWith(problem);
    throw problem;
  }
}
