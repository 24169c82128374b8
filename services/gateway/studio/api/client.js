/** Requests to the public API, with the credential of the tab. */
import { requestsTo } from "./requests.js";
import { credential, endWith, ROOT } from "./session.js";

export const { send, get, write } = requestsTo(ROOT, { headers: credential, refused: endWith });
export { ApiError, randomKey } from "./requests.js";
