/** Requests to the public API, whoever makes them. */
const SECONDS = 130;
// What the gateway takes in one request; the services behind it have limits of their own.
const MOST_FILE_BYTES = 256 * 1024 * 1024;

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
