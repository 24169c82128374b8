/** What waits for a connection, so that the frame can say so. */
import { Store } from "../store.js";
import { sleep } from "./sleep.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8_000;

export const waitingStreams = new Store(new Set());

export function setWaiting(stream, waits) {
  if (waitingStreams.value.has(stream) === waits) return;
  const next = new Set(waitingStreams.value);
  if (waits) next.add(stream);
  else next.delete(stream);
  waitingStreams.set(next);
}

/**
 * Repeats a read, or a write that is safe to repeat, while the service cannot be reached. Resolves as `attempt` does; rejects
 * with what will not pass, and after `attempts` of them.
 */
export async function persist(attempt, { signal, attempts = Infinity } = {}) {
  const waiting = {};
  try {
    for (let count = 1, pause = FIRST_PAUSE_MS; ; count += 1, pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        return await attempt();
      } catch (problem) {
        if (signal?.aborted || !problem.passes || count >= attempts) throw problem;
        setWaiting(waiting, true);
        await sleep(Math.max(pause, (problem.retryAfter ?? 0) * 1000), signal);
      }
    }
  } finally {
    setWaiting(waiting, false);
  }
}
