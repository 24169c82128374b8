/** Messages that the service has not accepted yet, by their session. They outlast a reload and end with the tab. */
const PREFIX = "aes.studio.unsent.";
// Those whose session is not made yet.
const NEW = "new";

/** Messages as `{idempotencyKey, at, content, blocks, attachments}`, in the order in which they were written. */
export function unsentOf(sessionId) {
  return JSON.parse(sessionStorage.getItem(PREFIX + (sessionId ?? NEW))) ?? [];
}

export function keepUnsent(sessionId, { idempotencyKey, at, content, blocks, attachments }) {
  put(sessionId, [...others(sessionId, idempotencyKey), { idempotencyKey, at, content, blocks, attachments }]);
}

export function forgetUnsent(sessionId, { idempotencyKey }) {
  put(sessionId, others(sessionId, idempotencyKey));
}

function others(sessionId, key) {
  return unsentOf(sessionId).filter(({ idempotencyKey }) => idempotencyKey !== key);
}

function put(sessionId, messages) {
  const name = PREFIX + (sessionId ?? NEW);
  try {
    if (messages.length) sessionStorage.setItem(name, JSON.stringify(messages));
    else sessionStorage.removeItem(name);
  } catch {
    // A tab has room for some megabytes; what is longer lives on the page alone.
  }
}
