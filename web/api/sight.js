/**
 * What needs a connection, as long as the tab is looked at: browsers open six to a service over HTTP/1.1, for all tabs
 * together, and a seventh tab would wait for ever.
 */
const AWAY_MS = 5_000;

/**
 * Runs `run(signal)`, ends it when the tab has been out of sight for a while and `mayEnd()`, and runs it again when the
 * tab is seen. Resolves as the last run does.
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

/** Resolves when the tab is in sight, or the signal aborts. */
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
