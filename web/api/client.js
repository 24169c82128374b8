/**
 * The signed-in session, and requests to the public API with its credential. The key is kept in the session storage of
 * the studio's tabs, so it survives a reload and disappears with the last tab. A new tab requests it from the open
 * tabs.
 */
import { Store } from "../store.js";
import { ApiError, randomKey, requestsTo, sleep } from "./requests.js";

const STORED = "aes.studio.session";
const COMPANY = "aes.studio.company";
const LINK_KEY_HOURS = 12;
const TABS_ANSWER_MS = 300;
const tabs = new BroadcastChannel(STORED);

export const ROOT = "/api/v1";

// Requests before sign-in, without a credential.
const anonymous = requestsTo(ROOT);

/** The tab's session. `state` is `out`, `checking`, `resuming` or `in`. `problem` says why the tab is signed out. */
export const session = new Store({ state: "out", me: null, problem: "" });

let stored = readStored();
// The pending request to the other tabs, or null once it's answered or this tab has its own session.
let asked = null;

function readStored() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED)) ?? null;
  } catch {
    return null;
  }
}

function keep(value) {
  stored = value;
  asked = null;
  if (value) sessionStorage.setItem(STORED, JSON.stringify(value));
  else sessionStorage.removeItem(STORED);
}

export function credential() {
  return stored ? { "x-api-key": stored.key } : {};
}

export function allows(scope) {
  return session.value.me?.scopes.includes(scope) ?? false;
}

/** Signs in with an API key. */
export async function signIn(key, keyId = null) {
  // Other characters can't be sent in an HTTP header.
  const isKey = /^[!-~]+$/.test(key);
  session.set({ state: isKey ? "checking" : "out", me: null, problem: isKey ? "" : "Invalid API key." });
  if (isKey) await enter({ key, keyId }, whoIs);
}

function whoIs({ key }) {
  return anonymous.get("/me/", {}, { headers: { "x-api-key": key } });
}

async function enter(given, ask) {
  try {
    const me = await ask(given);
    // Drafts that were written for another company mustn't appear here.
    if ((sessionStorage.getItem(COMPANY) ?? me.company_id) !== me.company_id) sessionStorage.clear();
    sessionStorage.setItem(COMPANY, me.company_id);
    keep(given);
    session.set({ state: "in", me, problem: "" });
  } catch (problem) {
    if (problem instanceof ApiError && problem.status === 401) keep(null);
    session.set({ state: "out", me: null, problem: sentenceOf(problem) });
  }
}

function sentenceOf(problem) {
  if (problem.status !== 401 || problem.message.startsWith("Invalid")) return problem.message;
  return `This key is no longer valid. ${problem.message}`;
}

/**
 * Signs in with a link's token, which works once: it creates a key for this tab under an idempotency key derived from
 * the token.
 */
async function signInByLink(token) {
  session.set({ state: "checking", me: null, problem: "" });
  const expiresAt = new Date(Date.now() + LINK_KEY_HOURS * 3_600_000).toISOString();
  try {
    // Request the scopes explicitly, because by default, a key has no installation scopes.
    const { scopes } = await anonymous.get("/me/", {}, { headers: { authorization: `Bearer ${token}` } });
    const wanted = { name: "Studio, signed in by link", scopes, expires_at: expiresAt };
    const made = await anonymous.write("POST", "/api-keys/", wanted, {
      headers: { authorization: `Bearer ${token}`, "idempotency-key": `studio-${token.split(".").pop()}` },
    });
    await signIn(made.secret, made.id);
  } catch (problem) {
    // 422 means that the idempotency key was used with another expiry, and thus another body.
    const used = problem.status === 409 || problem.status === 422;
    const old = problem.status === 401;
    const again = "Run ./aes up to print a new one, or sign in with a key.";
    const why = used ? `This link has already been used. ${again}` : old ? `This link is no longer valid. ${again}` : problem.message;
    session.set({ state: "out", me: null, problem: why });
  }
}

/** Resumes the tab's session: from a link's token in the fragment, or from the stored key. */
export async function resume() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    // Remove the token from the address bar and the history before anything else.
    history.replaceState(null, "", location.pathname + location.search);
    await signInByLink(token);
  } else if (session.value.state !== "in") {
    session.set({ ...session.value, state: "resuming" });
    const given = stored ?? (await askTabs());
    // In the meantime, a link may have been opened in this tab.
    if (session.value.state !== "resuming") return;
    if (!given) {
      session.set({ ...session.value, state: "out" });
      return;
    }
    await signInAgain(given);
  }
}

/**
 * Signs in with a stored credential. Retries while the service is unreachable or busy, instead of asking for the key.
 */
async function signInAgain(given) {
  session.set({ ...session.value, state: "resuming" });
  await enter(given, () => persist(() => whoIs(given)));
}

/** Resolves to another tab's credential, or to null if no tab answers in time. */
function askTabs() {
  return new Promise((resolve) => {
    asked = { id: randomKey(), resolve };
    setTimeout(resolve, TABS_ANSWER_MS, null);
    tabs.postMessage({ ask: asked.id });
  });
}

/** Uses another tab's answer, even if it arrives after the sign-in form has appeared. */
function answered(given) {
  const { resolve } = asked;
  asked = null;
  resolve(given);
  if (session.value.state === "out") signInAgain(given);
}

tabs.addEventListener("message", ({ data }) => {
  if (data.ask && session.value.state === "in") tabs.postMessage({ to: data.ask, given: stored });
  if (asked && data.to === asked.id) answered(data.given);
  if (!data.ended || data.ended !== stored?.key) return;
  keep(null);
  sessionStorage.clear();
  session.set({ state: "out", me: null, problem: "You were signed out in another tab." });
});

/** Ends the session in all tabs, and revokes a key that a link created. Drafts survive unless the person signed out. */
export async function signOut(problem = "") {
  const ended = stored;
  keep(null);
  if (!problem) sessionStorage.clear();
  session.set({ state: "out", me: null, problem });
  if (ended && !problem) tabs.postMessage({ ended: ended.key });
  if (ended?.keyId && !problem) {
    await anonymous.write("DELETE", `/api-keys/${ended.keyId}/`, undefined, { headers: { "x-api-key": ended.key } }).catch(() => null);
  }
}

/** Ends the session after a 401. The first 401 supplies the reason. */
export function endWith(problem) {
  if (problem.status === 401 && session.value.state === "in") signOut(`You were signed out: the key is no longer valid. ${problem.message}`);
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8_000;

/** Tracks the requests and streams that are waiting for a connection, so that the frame can show a notice. */
export const waitingStreams = new Store(new Set());

export function setWaiting(stream, waits) {
  if (waitingStreams.value.has(stream) === waits) return;
  const next = new Set(waitingStreams.value);
  if (waits) next.add(stream);
  else next.delete(stream);
  waitingStreams.set(next);
}

/**
 * Retries a read or an idempotent write while the service is unreachable. Resolves like `attempt`. Rejects with an
 * error that isn't transient, or after `attempts` attempts.
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

const ANSWER_MS = 60_000;

export const { send, get, write } = requestsTo(ROOT, { headers: credential, refused: endWith });
export { ApiError, randomKey } from "./requests.js";

/** Reads a resource, retrying while the service is unreachable. */
export function read(path, query, { signal }) {
  return persist(() => get(path, query, { signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]) }), { signal });
}

const SECONDS = 600;

/** Offers a file to the browser as a download. */
export async function download(path, name, query = {}) {
  const response = await send("GET", path, { query, signal: AbortSignal.timeout(SECONDS * 1000) });
  const address = URL.createObjectURL(await response.blob());
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Resolves to the first `most` bytes as text, and whether more follow. */
export async function readText(path, most, { query = {}, signal } = {}) {
  const response = await send("GET", path, { query, headers: { range: `bytes=0-${most - 1}` }, signal });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const whole = Number(response.headers.get("content-range")?.split("/")[1] ?? bytes.length);
  // The limit may split a character, whose bytes are dropped.
  const text = new TextDecoder().decode(bytes.subarray(0, most), { stream: whole > bytes.length });
  return { text, isWhole: whole <= bytes.length };
}
