/** Requests to the public API, with the credential of the tab. */
import { persist } from "./network.js";
import { requestsTo } from "./requests.js";
import { credential, endWith, ROOT } from "./session.js";

const ANSWER_MS = 60_000;

export const { send, get, write } = requestsTo(ROOT, { headers: credential, refused: endWith });
export { ApiError, randomKey } from "./requests.js";

/** Gets what is there, as soon as the service can be reached. */
export function read(path, query, { signal }) {
  return persist(() => get(path, query, { signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]) }), { signal });
}
