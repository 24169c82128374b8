/** Streams of events that go on after a lost connection, right after the last event that was seen. */
import { ApiError, Unreachable } from "./requests.js";
import { sleep } from "./sleep.js";
import { SseParser } from "./sse.js";

// The service sends a comment after 15 s without an event.
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8_000;

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
