/** Which streams wait for a connection, so that the frame can say so. */
import { Store } from "../app/store.js";

export const waitingStreams = new Store(new Set());

export function setWaiting(stream, waits) {
  if (waitingStreams.value.has(stream) === waits) return;
  const next = new Set(waitingStreams.value);
  if (waits) next.add(stream);
  else next.delete(stream);
  waitingStreams.set(next);
}
