/** Requests to the public API, with the credential of the tab. */
import { requestsTo } from "./requests.js";
import { credential, ROOT, signOut } from "./session.js";

function refused(problem) {
  if (problem.status === 401) signOut(`You were signed out: the key is not valid any more. ${problem.message}`);
}

export const { send, get, write } = requestsTo(ROOT, { headers: credential, refused });
export { ApiError, randomKey } from "./requests.js";
