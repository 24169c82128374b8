/** Requests to the public API, and streams that go on after a lost connection, whoever makes them. */
const SECONDS = 130;
// What the gateway takes in one request; the services behind it have limits of their own.
const MOST_FILE_BYTES = 256 * 1024 * 1024;
// The service sends a comment after 15 s without an event.
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8_000;

/**
 * `{send, get, write}` for an API at `root`. `headers` and `query` are functions: what every request has. `refused` is
 * told of each answer that says no, before it is raised.
 */
export function requestsTo(root, { headers: common = () => ({}), query: always = () => ({}), refused = () => {} } = {}) {
  const urlOf = (path, query = {}) => {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...always(), ...query })) {
      if (value !== undefined && value !== null && value !== "") parameters.append(name, value);
    }
    const text = parameters.toString();
    return root + path + (text ? `?${text}` : "");
  };

  /** Sends a request; returns the response of a success. Raises `ApiError` or `Unreachable`. */
  const send = async (method, path, { query, body, headers = {}, signal } = {}) => {
    const isPlain = body === undefined || typeof body === "string" || body instanceof FormData;
    let response;
    try {
      response = await fetch(urlOf(path, query), {
        method,
        headers: { ...common(), ...(isPlain ? {} : { "content-type": "application/json" }), ...headers },
        body: isPlain ? body : JSON.stringify(body),
        signal: signal ?? AbortSignal.timeout(SECONDS * 1000),
        cache: "no-store",
      });
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      throw new Unreachable(problem);
    }
    if (response.ok) return response;
    const problem = await errorOf(response);
    refused(problem);
    throw problem;
  };

  const get = async (path, query, options = {}) => bodyOf(await send("GET", path, { query, ...options }));

  /** Every write has a key of its own, so that repeating it after a lost answer is safe. */
  const write = async (method, path, body, { headers = {}, ...options } = {}) => {
    const again = { body, headers: { "idempotency-key": randomKey(), ...headers }, ...options };
    const attempt = async () => bodyOf(await send(method, path, again));
    try {
      return await attempt();
    } catch (problem) {
      if (!(problem instanceof Unreachable)) throw problem;
      return attempt();
    }
  };

  return { send, get, write };
}

/** `crypto.randomUUID` is there only where the page came over TLS or from this machine. */
export function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(20))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** An answer that says no, in the API's words. */
export class ApiError extends Error {
  constructor(status, { type = "internal_error", message = "", details = null, correlation_id = null } = {}, retryAfter = null) {
    super(sentenceOf(message) || `The service answered ${status}.`);
    this.status = status;
    this.type = type;
    this.details = details ?? [];
    this.correlationId = correlation_id;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed soon; a budget that is used up stays so for hours. */
  get passes() {
    return (this.status === 429 && this.type !== "budget_exceeded") || this.status >= 502;
  }
}

/** Raises `ApiError` for a file that no installation takes: it would have to be sent to be told so. */
export function checkSize({ size }) {
  if (size > MOST_FILE_BYTES) throw new ApiError(413, { type: "request_too_large", message: "It is larger than 256 MB." });
}

/** The API's words begin with a small letter; names of fields and types stay as they are. */
function sentenceOf(message) {
  return /^[a-z]+[ ,]/.test(message) ? message[0].toUpperCase() + message.slice(1) : message;
}

/** The service cannot be reached at all. */
export class Unreachable extends Error {
  constructor(cause) {
    super("The service cannot be reached.", { cause });
  }

  get passes() {
    return true;
  }
}

/** Reads the answer of a success. Raises `Unreachable` when its connection breaks meanwhile. */
async function bodyOf(response) {
  try {
    return response.status === 204 ? null : await response.json();
  } catch (problem) {
    if (problem.name === "AbortError" || problem instanceof SyntaxError) throw problem;
    throw new Unreachable(problem);
  }
}

/** Reads an answer's error; one that is not the API's, such as a proxy's page, is told by its status. */
async function errorOf(response) {
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  try {
    return new ApiError(response.status, (await response.json()).error, retryAfter);
  } catch {
    return new ApiError(response.status, { message: `The service answered ${response.status} ${response.statusText}`.trim() + "." }, retryAfter);
  }
}

/** Waits, until the signal aborts at the longest. */
export function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/**
 * Follows a stream until it ends, the caller aborts or the service refuses.
 *
 * `open(lastId)` names the request that `send` makes: `{method, path, query?, body?, headers?}`. `onEvent({id, event,
 * data})` gets each event once; it returns true for the last one. `onWaiting(stream, waits)` is told when the stream
 * waits for a connection. `place` says up to where the stream was read, and until when, for who follows it once more.
 * Resolves when the stream has ended, to true when nothing was heard of it for more than `longestMs`; rejects with the refusal.
 */
export async function followBy(send, { open, onEvent, onOpen = () => {}, onWaiting = () => {}, signal, longestMs = Infinity, place = beginning() }) {
  const stream = {};
  let pause = FIRST_PAUSE_MS;
  try {
    while (!signal.aborted) {
      if (Date.now() - place.heardAt > longestMs) return true;
      try {
        const reading = new Reading(send, signal);
        const response = await reading.open(open(place.lastId), place.lastId);
        onOpen(response);
        onWaiting(stream, false);
        if (response.status === 204) return false;
        for await (const event of reading.events(response, place)) {
          pause = FIRST_PAUSE_MS;
          if (event.event === "error") throw streamError(event);
          if (event.id !== null) place.lastId = event.id;
          if (event.data !== null && onEvent({ ...event, data: JSON.parse(event.data) })) return false;
        }
      } catch (problem) {
        if (signal.aborted) return false;
        if (!mayPass(problem)) throw problem;
        if (problem.retryAfter) pause = Math.max(pause, problem.retryAfter * 1000);
      }
      if (signal.aborted) return false;
      onWaiting(stream, true);
      await sleep(pause * (0.75 + Math.random() / 2), signal);
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
    return false;
  } finally {
    onWaiting(stream, false);
  }
}

/** The place of a stream that was not read yet. */
export function beginning() {
  return { lastId: null, heardAt: Date.now() };
}

function streamError({ data }) {
  const { error } = JSON.parse(data);
  return new ApiError(error.type === "authentication_error" ? 401 : 503, error);
}

function mayPass(problem) {
  return problem instanceof Unreachable || (problem instanceof ApiError && problem.passes);
}

/** One connection. It is given up when nothing came for longer than the service is ever silent. */
class Reading {
  #abort = new AbortController();
  #timer = 0;
  #send;

  constructor(send, signal) {
    this.#send = send;
    if (signal.aborted) this.#abort.abort();
    signal.addEventListener("abort", () => this.#abort.abort(), { signal: this.#abort.signal });
  }

  async open({ method = "GET", path, query, body, headers = {} }, lastId) {
    this.#watch();
    const resumed = lastId === null ? {} : { "last-event-id": lastId };
    try {
      return await this.#send(method, path, {
        query,
        body,
        headers: { accept: "text/event-stream", ...resumed, ...headers },
        signal: this.#abort.signal,
      });
    } catch (problem) {
      clearTimeout(this.#timer);
      throw problem.name === "AbortError" ? new Unreachable(problem) : problem;
    }
  }

  async *events(response, place) {
    const parser = new SseParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        this.#watch();
        place.heardAt = Date.now();
        yield* parser.feed(value);
      }
    } catch (problem) {
      if (problem instanceof ApiError) throw problem;
      throw new Unreachable(problem);
    } finally {
      clearTimeout(this.#timer);
      this.#abort.abort();
    }
  }

  #watch() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#abort.abort(), SILENCE_MS);
  }
}

/** Server-sent events out of pieces of text that end anywhere. */
export class SseParser {
  #rest = "";
  #data = [];
  #event = "";
  #id = null;

  /** The events that are complete by now: `{id, event, data}`. One without data carries an id alone. */
  feed(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line === "") this.#end(events);
      else if (!line.startsWith(":")) this.#take(line);
    }
    return events;
  }

  #take(line) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id") this.#id = value;
  }

  #end(events) {
    if (this.#data.length || this.#id !== null) {
      events.push({ id: this.#id, event: this.#event || "message", data: this.#data.length ? this.#data.join("\n") : null });
    }
    this.#data = [];
    this.#event = "";
    this.#id = null;
  }
}
