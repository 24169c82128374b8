/** Streams of the tab: while one waits for a connection, the frame says so. */
import { send } from "./client.js";
import { setWaiting } from "./network.js";
import { followBy } from "./streams.js";

export function follow(options) {
  return followBy(send, { ...options, onWaiting: setWaiting });
}
