/** Requests to the public API, and streams that resume after a lost connection. */
const SECONDS = 130;
// The gateway's limit for a request. The services behind it have their own limits.
const MOST_FILE_BYTES = 256 * 1024 * 1024;
// The service sends a comment after 15 s without an event.
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8_000;

/**
 * Returns `{send, get, write}` for an API at `root`. `headers` and `query` are functions whose results are added to
 * every request. `refused` is called with each error response before it's thrown.
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

  /** Sends a request and returns a successful response. Throws `ApiError` or `Unreachable`. */
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

  /** Sends a write with its own idempotency key, so that it can be retried if the response is lost. */
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

/** `crypto.randomUUID` exists only in secure contexts: over TLS or on localhost. */
export function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(20))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** An error response with the API's message. */
export class ApiError extends Error {
  constructor(status, { type = "internal_error", message = "", details = null, correlation_id = null } = {}, retryAfter = null) {
    super(sentenceOf(message) || `The service responded with status ${status}.`);
    this.status = status;
    this.type = type;
    this.details = details ?? [];
    this.correlationId = correlation_id;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed soon. If a budget is used up, it fails for hours. */
  get passes() {
    return (this.status === 429 && this.type !== "budget_exceeded") || this.status >= 502;
  }
}

/** Throws `ApiError` for a file that exceeds every installation's limit, so that it isn't sent for nothing. */
export function checkSize({ size }) {
  if (size > MOST_FILE_BYTES) throw new ApiError(413, { type: "request_too_large", message: "The file is larger than 256 MB." });
}

/** Capitalizes a message from the API, unless it starts with the name of a field or type. */
function sentenceOf(message) {
  return /^[a-z]+[ ,]/.test(message) ? message[0].toUpperCase() + message.slice(1) : message;
}

/** Thrown if the service can't be reached. */
export class Unreachable extends Error {
  constructor(cause) {
    super("Couldn't reach the service.", { cause });
  }

  get passes() {
    return true;
  }
}

/** Reads a successful response. Throws `Unreachable` if the connection breaks. */
async function bodyOf(response) {
  try {
    return response.status === 204 ? null : await response.json();
  } catch (problem) {
    if (problem.name === "AbortError" || problem instanceof SyntaxError) throw problem;
    throw new Unreachable(problem);
  }
}

/** Reads an error response. If it isn't from the API but, for example, a proxy's page, describes it by its status. */
async function errorOf(response) {
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  try {
    return new ApiError(response.status, (await response.json()).error, retryAfter);
  } catch {
    return new ApiError(response.status, { message: `The service responded with ${response.status} ${response.statusText}`.trim() + "." }, retryAfter);
  }
}

/** Waits for `milliseconds`, or until the signal aborts. */
export function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/**
 * Follows a stream until it ends, the caller aborts or the service refuses.
 *
 * `open(lastId)` returns the request: `{method, path, query?, body?, headers?}`. `onEvent({id, event, data})` is called
 * once per event and returns true for the last one. `onWaiting(stream, waits)` reports when the stream loses its
 * connection and when it has reconnected. `place` contains the last event's id and time, so that a later call can
 * resume there. Resolves at the end of the stream, or to true after `longestMs` without any data. Rejects with the
 * service's error.
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

/** The position at which a stream starts. */
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

/** Opens one connection. Closes it if nothing arrives for longer than the service's keep-alive interval. */
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

/** Parses server-sent events from chunks of text. A chunk can end anywhere. */
export class SseParser {
  #rest = "";
  #data = [];
  #event = "";
  #id = null;

  /** Returns the complete events as `{id, event, data}`. An event without data only has an id. */
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
