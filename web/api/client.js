/**
 * Who is signed in, and requests to the public API with the credential of the tab. The key lives in the
 * session storage of the studio's tabs: it survives a reload and ends with the last of them. A new tab asks those that are open.
 */
import { Store } from "../store.js";
import { ApiError, randomKey, requestsTo, sleep } from "./requests.js";

const STORED = "aes.studio.session";
const COMPANY = "aes.studio.company";
const LINK_KEY_HOURS = 12;
const TABS_ANSWER_MS = 300;
const tabs = new BroadcastChannel(STORED);

export const ROOT = "/api/v1";

// Without the credential of the tab, which is not there yet.
const anonymous = requestsTo(ROOT);

/** `state` is `out`, `checking`, `resuming` or `in`; `problem` says why somebody is out. */
export const session = new Store({ state: "out", me: null, problem: "" });

let stored = readStored();
// The question to the other tabs, until it is answered or this tab has a session of its own.
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
  // A header could not carry it.
  const isKey = /^[!-~]+$/.test(key);
  session.set({ state: isKey ? "checking" : "out", me: null, problem: isKey ? "" : "The API key is not valid." });
  if (isKey) await enter({ key, keyId }, whoIs);
}

function whoIs({ key }) {
  return anonymous.get("/me/", {}, { headers: { "x-api-key": key } });
}

async function enter(given, ask) {
  try {
    const me = await ask(given);
    // What somebody of another company was writing in this tab is not for this one.
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
  if (problem.status !== 401 || problem.message.includes("not valid")) return problem.message;
  return `This key is not valid any more. ${problem.message}`;
}

/**
 * Signs in with the token of a link, once: the token makes a key of this tab's own, under an idempotency key that is
 * used up by it.
 */
async function signInByLink(token) {
  session.set({ state: "checking", me: null, problem: "" });
  const expiresAt = new Date(Date.now() + LINK_KEY_HOURS * 3_600_000).toISOString();
  try {
    // Named one by one: a key that is made without naming scopes gets none of the installation's.
    const { scopes } = await anonymous.get("/me/", {}, { headers: { authorization: `Bearer ${token}` } });
    const wanted = { name: "Studio, signed in by link", scopes, expires_at: expiresAt };
    const made = await anonymous.write("POST", "/api-keys/", wanted, {
      headers: { authorization: `Bearer ${token}`, "idempotency-key": `studio-${token.split(".").pop()}` },
    });
    await signIn(made.secret, made.id);
  } catch (problem) {
    // 422: the repeat asks for a later end of the key, so that its body is another one.
    const used = problem.status === 409 || problem.status === 422;
    const old = problem.status === 401;
    const again = "Print a new one with ./aes up, or sign in with a key.";
    const why = used ? `This link has been used already. ${again}` : old ? `This link is not valid any more. ${again}` : problem.message;
    session.set({ state: "out", me: null, problem: why });
  }
}

/** Takes up what the tab knows: a link's token in the fragment, or the key from before a reload. */
export async function resume() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    // Out of the address bar and the history before anything else happens.
    history.replaceState(null, "", location.pathname + location.search);
    await signInByLink(token);
  } else if (session.value.state !== "in") {
    session.set({ ...session.value, state: "resuming" });
    const given = stored ?? (await askTabs());
    // A link may have been opened in this tab meanwhile.
    if (session.value.state !== "resuming") return;
    if (!given) {
      session.set({ ...session.value, state: "out" });
      return;
    }
    await takeUp(given);
  }
}

/** Signs in with what a tab knew before: that the service is away or busy is no reason to ask for the key again. */
async function takeUp(given) {
  session.set({ ...session.value, state: "resuming" });
  await enter(given, () => persist(() => whoIs(given)));
}

/** What another tab is signed in with; null where none answers in time. */
function askTabs() {
  return new Promise((resolve) => {
    asked = { id: randomKey(), resolve };
    setTimeout(resolve, TABS_ANSWER_MS, null);
    tabs.postMessage({ ask: asked.id });
  });
}

/** Takes what another tab answered, also when its answer comes late and the sign-in form is shown already. */
function answered(given) {
  const { resolve } = asked;
  asked = null;
  resolve(given);
  if (session.value.state === "out") takeUp(given);
}

tabs.addEventListener("message", ({ data }) => {
  if (data.ask && session.value.state === "in") tabs.postMessage({ to: data.ask, given: stored });
  if (asked && data.to === asked.id) answered(data.given);
  if (!data.ended || data.ended !== stored?.key) return;
  keep(null);
  sessionStorage.clear();
  session.set({ state: "out", me: null, problem: "You were signed out in another tab." });
});

/** Ends the session, in each tab that has it; a key that a link made ends with it. What was being written outlasts an end that nobody asked for. */
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

/** Ends the session when an answer says that its key is no key any more; the first of such answers tells why. */
export function endWith(problem) {
  if (problem.status === 401 && session.value.state === "in") signOut(`You were signed out: the key is not valid any more. ${problem.message}`);
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8_000;

/** What waits for a connection, so that the frame can say so. */
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

const ANSWER_MS = 60_000;

export const { send, get, write } = requestsTo(ROOT, { headers: credential, refused: endWith });
export { ApiError, randomKey } from "./requests.js";

/** Gets what is there, as soon as the service can be reached. */
export function read(path, query, { signal }) {
  return persist(() => get(path, query, { signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]) }), { signal });
}

const SECONDS = 600;

/** Hands a file to the browser as a download. */
export async function download(path, name, query = {}) {
  const response = await send("GET", path, { query, signal: AbortSignal.timeout(SECONDS * 1000) });
  const address = URL.createObjectURL(await response.blob());
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** The first `most` bytes as text, and whether there are more. */
export async function readText(path, most, { query = {}, signal } = {}) {
  const response = await send("GET", path, { query, headers: { range: `bytes=0-${most - 1}` }, signal });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const whole = Number(response.headers.get("content-range")?.split("/")[1] ?? bytes.length);
  // A cut may go through a letter; so many bytes at the end are dropped.
  const text = new TextDecoder().decode(bytes.subarray(0, most), { stream: whole > bytes.length });
  return { text, isWhole: whole <= bytes.length };
}
