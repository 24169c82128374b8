/** An answer that says no, in the API's words. */
export class ApiError extends Error {
  constructor(status, { type = "internal_error", message = "", details = null, correlation_id = null } = {}, retryAfter = null) {
    super(message || `The service answered ${status}.`);
    this.status = status;
    this.type = type;
    this.details = details ?? [];
    this.correlationId = correlation_id;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get passes() {
    return this.status === 429 || this.status >= 502;
  }
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

/** Reads an answer's error; one that is not the API's, such as a proxy's page, is told by its status. */
export async function errorOf(response) {
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  try {
    return new ApiError(response.status, (await response.json()).error, retryAfter);
  } catch {
    return new ApiError(response.status, { message: `The service answered ${response.status} ${response.statusText}`.trim() + "." }, retryAfter);
  }
}
