/** Requests to the public API, with the credential of the tab. */
import { ApiError, errorOf, Unreachable } from "./errors.js";
import { credential, signOut } from "./session.js";

const ROOT = "/api/v1";
const SECONDS = 130;

export function urlOf(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") parameters.append(name, value);
  }
  const text = parameters.toString();
  return ROOT + path + (text ? `?${text}` : "");
}

/** Sends a request; returns the response of a success. Raises `ApiError` or `Unreachable`. */
export async function send(method, path, { query, body, headers = {}, signal } = {}) {
  const isPlain = body === undefined || typeof body === "string" || body instanceof FormData;
  let response;
  try {
    response = await fetch(urlOf(path, query), {
      method,
      headers: { ...credential(), ...(isPlain ? {} : { "content-type": "application/json" }), ...headers },
      body: isPlain ? body : JSON.stringify(body),
      signal: signal ?? AbortSignal.timeout(SECONDS * 1000),
      cache: "no-store",
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Unreachable(problem);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const problem = await errorOf(response);
  if (problem.status === 401) signOut(`You were signed out: the key is not valid any more. ${problem.message}`);
  return problem;
}

export async function get(path, query, options = {}) {
  return (await send("GET", path, { query, ...options })).json();
}

/** Every write has a key of its own, so that repeating it after a lost answer is safe. */
export async function write(method, path, body, { headers = {}, ...options } = {}) {
  const sent = { "idempotency-key": randomKey(), ...headers };
  const again = { body, headers: sent, ...options };
  let response;
  try {
    response = await send(method, path, again);
  } catch (problem) {
    if (!(problem instanceof Unreachable)) throw problem;
    response = await send(method, path, again);
  }
  return response.status === 204 ? null : response.json();
}

/** `crypto.randomUUID` is there only where the page came over TLS or from this machine. */
export function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(20))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export { ApiError };
