/** A visitor's conversation, with its session, calls of the page's own functions, and files. */
import { ApiError, checkSize, followBy, requestsTo, Unreachable } from "../api/requests.js";
import { Talk } from "../chat/conversation.js";

const LAST_MESSAGES = 100;
const ANSWER_MS = 15_000;
const UPLOAD_MS = 600_000;
const REPEATS = 5;

/**
 * The API for web pages, with the public key in every address. `onWaiting(stream, waits)` reports streams that have
 * lost their connection, and `onUnreachable` any other request without an answer.
 */
export function publicApi({ origin, connectionKey, agentKey }, { onWaiting, onUnreachable }) {
  const query = connectionKey ? { connection_key: connectionKey } : { agent_key: agentKey };
  const requests = requestsTo(`${origin}/api/v1`, { query: () => query });
  const told = (request) => async (...given) => {
    try {
      return await request(...given);
    } catch (problem) {
      if (problem instanceof Unreachable) onUnreachable();
      throw problem;
    }
  };
  return {
    get: told(requests.get),
    send: told(requests.send),
    write: told(requests.write),
    follow: (options) => followBy(requests.send, { ...options, onWaiting }),
    reach: () => reachOf(requests, origin),
  };
}

/**
 * Resolves to `{reach, scopes, problem}`, which says if pages on this origin can use the key. `reach` is `allowed`,
 * `refused` or `unreachable`. `scopes` is null if the service hasn't returned them.
 */
async function reachOf(requests, origin) {
  try {
    const { scopes } = await requests.get("/me/", {}, { signal: AbortSignal.timeout(ANSWER_MS) });
    return { reach: "allowed", scopes, problem: "" };
  } catch (problem) {
    // CORS lets a page read an error only if the page may read all responses.
    if (problem instanceof ApiError) return { reach: "allowed", scopes: null, problem: problem.message };
    // An unreadable answer means a refusal if the service answers a public request. A proxy's error page in place of an
    // absent gateway is unreadable, too.
    const script = () => fetch(`${origin}/widget.js`, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
    const isHidden = problem instanceof Unreachable && problem.cause?.name !== "TimeoutError";
    const isRefused = isHidden && (await script().catch(() => null))?.ok;
    return { reach: isRefused ? "refused" : "unreachable", scopes: null, problem: "" };
  }
}

let last = 0;

export class Visitor extends Talk {
  /** Identifies the conversation's element as long as it's shown. */
  key = (last += 1);
  #memory;
  #tools;
  #answered = new Set();
  #opening = null;

  /** A visitor. `tools` returns the page's own functions, by the names of client tools. */
  constructor(api, memory, tools) {
    super(api, memory.session);
    this.#memory = memory;
    this.#tools = tools;
  }

  get running() {
    return this.turns.find(({ hasEnded, id }) => !hasEnded && id);
  }

  /** Resumes the conversation from before a reload, or forgets it if it was deleted. */
  async resume() {
    if (!this.sessionId) return;
    try {
      await this.loadMessages(Math.max(0, (await this.countMessages()) - LAST_MESSAGES), LAST_MESSAGES);
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      this.#forget();
    }
    this.changed();
    for (const turn of this.turns) if (turn.id && !turn.hasEnded) this.followTurn(turn);
  }

  startOver() {
    this.end();
    this.#forget();
  }

  /** Aborts running requests. Returns the texts of messages that weren't accepted. */
  abandon() {
    this.end();
    const open = this.turns.filter(({ hasEnded }) => !hasEnded);
    for (const turn of open) turn.status = turn.id ? "failed" : "refused";
    this.changed();
    return open.filter(({ id }) => !id).map(({ content }) => content);
  }

  #forget() {
    this.#memory.keep(null);
    this.sessionId = null;
  }

  /** Resolves to the session, which the first message or file creates. */
  open() {
    if (this.sessionId) return this.sessionId;
    this.#opening ??= this.api
      .write("POST", "/sessions/", {})
      .then(({ session_id: id }) => {
        this.sessionId = id;
        this.#memory.keep(id);
        return id;
      })
      .finally(() => (this.#opening = null));
    return this.#opening;
  }

  async send(text, files) {
    await this.open();
    await this.say(text, files);
  }

  async upload(file) {
    checkSize(file);
    const form = new FormData();
    form.append("file", file);
    const path = `/sessions/${await this.open()}/artifacts/`;
    const signal = AbortSignal.timeout(UPLOAD_MS);
    try {
      return await (await this.api.send("POST", path, { body: form, signal })).json();
    } catch (problem) {
      throw problem.status === 403 ? new Error("This chat doesn't accept files.") : problem;
    }
  }

  async download({ artifact_id: id, name }) {
    const response = await this.api.send("GET", `/sessions/${this.sessionId}/artifacts/${id}/download/`);
    const href = URL.createObjectURL(await response.blob());
    Object.assign(document.createElement("a"), { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  }

  /** Runs the page's functions for calls that need results, each once per page load. */
  answerCalls() {
    for (const turn of this.turns) {
      for (const { action, name, arguments: given } of turn.hasEnded ? [] : turn.calls) {
        const tool = action?.kind === "tool_result" && this.#tools()[name];
        if (!tool || this.#answered.has(action.action_id)) continue;
        this.#answered.add(action.action_id);
        this.#answer(turn, action, tool, given);
      }
    }
  }

  async #answer(turn, action, tool, given) {
    let answer;
    try {
      answer = { output: (await tool(given)) ?? null };
    } catch (problem) {
      answer = { error: String(problem?.message ?? problem) || "The page's function failed." };
    }
    for (let repeat = 0; ; repeat += 1) {
      try {
        await this.resolve(turn, action, answer);
        return;
      } catch (problem) {
        // 409: another tab, or the agent's own server, answered first.
        if (problem.status === 409) return;
        if (!problem.passes || repeat === REPEATS) {
          console.error(`widget.js: The result of ${action.tool_call.name} was rejected.`, problem);
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, 1000 * 2 ** repeat));
      }
    }
  }
}

/** Remembers a conversation's session in the page's storage, by the connection's key. */
export class Memory {
  #name;
  #value = null;

  constructor(key) {
    this.#name = `aes.chat.${key}`;
    try {
      this.#value = localStorage.getItem(this.#name);
    } catch {
      // Storage may be unavailable, for example in a sandboxed frame. The conversation then ends with the page.
    }
  }

  get session() {
    return this.#value;
  }

  keep(session) {
    this.#value = session;
    try {
      if (session) localStorage.setItem(this.#name, session);
      else localStorage.removeItem(this.#name);
    } catch {
      // Storage may be unavailable, as above, or full.
    }
  }
}
