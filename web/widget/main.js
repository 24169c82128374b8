/** The chat on any web page: a button that opens a panel, in a shadow root that isolates styles. */
import { sleep } from "../api/requests.js";
import { html, render } from "../html.js";
import { styleSheets, Widget } from "./panel.js";
import { Memory, publicApi, Visitor } from "./visitor.js";

const WORDS = { label: "Chat", title: "Chat", greeting: "How can we help?", placeholder: "Write a message" };
const SAID = {
  refused: `This chat doesn't work on this page. Its key is invalid, or doesn't allow the origin ${location.origin}.`,
  ended: "This chat has ended and is no longer available on this page.",
  unreachable: "Couldn't reach the chat. Retrying…",
};
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
const DOUBT_MS = 3_000;
const PAINT_MS = 50;
const started = new Set();

/** Starts the chat. `settings` are the script's `data-` attributes and its `origin`. */
export function start(settings) {
  const key = settings.connectionKey || settings.agentKey;
  if (!key) {
    console.error("widget.js: The script element needs data-connection-key.");
    return;
  }
  if (started.has(key)) return;
  started.add(key);
  if (document.body) new Chat(settings, key);
  else addEventListener("DOMContentLoaded", () => new Chat(settings, key), { once: true });
}

class Chat {
  #visitor = null;
  #makeVisitor;
  #reach;
  #doubting = null;
  #painting = 0;
  /** The panel's state. The visitor is kept when the chat ends, so that the conversation can still be read. */
  #shown = { isOpen: false, visitor: null, problem: "", isWaiting: false, takesMessages: true, mayAttach: null, text: "" };

  constructor(settings, key) {
    this.page = globalThis.aesChat ??= {};
    this.page.tools ??= {};
    this.host = document.createElement("aes-chat");
    for (const name of ["theme", "position"]) if (settings[name]) this.host.dataset[name] = settings[name];
    this.root = this.host.attachShadow({ mode: "open" });
    this.root.adoptedStyleSheets = styleSheets(settings.accent);
    this.words = { ...WORDS, ...settings };
    this.offersFiles = settings.files !== "off";
    const waiting = new Set();
    const onWaiting = (stream, waits) => {
      if (waits) waiting.add(stream);
      else waiting.delete(stream);
      this.#show({ isWaiting: waiting.size > 0 });
      this.#doubt(waiting.size > 0);
    };
    const api = publicApi(settings, { onWaiting, onUnreachable: () => this.#doubt(true) });
    this.#reach = api.reach;
    this.#makeVisitor = () => new Visitor(api, new Memory(key), () => this.page.tools);
    this.#show({ mayAttach: this.offersFiles ? null : false });
    const { open, close } = this.#on;
    Object.assign(this.page, { open, close });
    document.body.append(this.host);
    if (settings.open !== undefined) this.#open({ focus: false });
  }

  #on = {
    open: () => this.#open(),
    close: () => {
      this.#toggle(false);
      this.#focus(".launcher");
    },
    startOver: () => {
      this.#visitor?.startOver();
      this.#visitor = null;
      this.#begin();
      this.#focus("textarea");
    },
    write: (text) => this.#show({ text }),
    send: (text, files) => {
      this.#focus("textarea");
      this.#guarded(async (visitor) => {
        try {
          await visitor.send(text, files);
        } catch (problem) {
          // Keep the text when sending fails.
          this.#giveBack([text]);
          throw problem;
        }
      });
    },
    stop: () => this.#guarded((visitor) => visitor.running && visitor.stop(visitor.running)),
    download: (artifact) => this.#guarded((visitor) => visitor.download(artifact)),
  };

  /** Renders synchronously, so that the next element to focus exists and typed text is known. */
  #show(changes) {
    Object.assign(this.#shown, changes);
    render(html`<${Widget} words=${this.words} on=${this.#on} ...${this.#shown} />`, this.root);
  }

  #focus(selector) {
    this.root.querySelector(selector).focus();
  }

  #open({ focus = true } = {}) {
    this.#toggle(true);
    if (!this.#visitor) this.#begin();
    if (focus) this.#focus("textarea");
  }

  #toggle(isOpen) {
    this.#show({ isOpen });
    this.host.toggleAttribute("data-open", isOpen);
  }

  async #guarded(action) {
    this.#show({ problem: "" });
    try {
      await action(this.#shown.visitor);
    } catch (problem) {
      this.#show({ problem: problem.message });
    }
  }

  /** Puts unsent texts before the draft. */
  #giveBack(texts) {
    this.#show({ text: [...texts, this.#shown.text].filter(Boolean).join("\n\n") });
  }

  /** Enables the composer, or makes it read-only so that its text can still be copied. */
  #takeMessages(takesMessages) {
    // Disabling the focused field would move the focus to the page, and the panel's keys would stop working.
    if (!takesMessages && this.root.querySelector("form").contains(this.root.activeElement)) this.#focus(".close");
    this.#show({ takesMessages });
  }

  /** Called after a request without an answer. An expired key looks the same, because pages can't read its error. */
  #doubt(is) {
    if (!is) {
      this.#doubting?.abort();
      this.#doubting = null;
    } else if (!this.#doubting) {
      const own = new AbortController();
      this.#doubting = own;
      this.#ask(own.signal).finally(() => {
        if (this.#doubting === own) this.#doubting = null;
      });
    }
  }

  async #ask(signal) {
    const visitor = this.#visitor;
    await sleep(DOUBT_MS, signal);
    // Checks twice: if the service starts between the two requests of one check, that looks like a refusal, too.
    for (let times = 2; times > 0; times -= 1) {
      if (signal.aborted || this.#visitor !== visitor) return;
      if ((await this.#reach()).reach !== "refused") return;
      await sleep(FIRST_PAUSE_MS, signal);
    }
    if (signal.aborted || this.#visitor !== visitor) return;
    this.#visitor = null;
    this.#takeMessages(false);
    this.#giveBack(visitor?.abandon() ?? []);
    this.#show({ problem: SAID.ended });
  }

  async #begin() {
    const visitor = this.#makeVisitor();
    this.#visitor = visitor;
    visitor.changed = () => {
      this.#painting ||= setTimeout(() => {
        this.#painting = 0;
        this.#show({});
        this.#shown.visitor.answerCalls();
      }, PAINT_MS);
    };
    this.#show({ visitor, problem: "" });
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      const { reach, scopes, problem } = await this.#reach();
      if (this.#visitor !== visitor) return;
      this.#takeMessages(reach !== "refused");
      this.#show({ mayAttach: this.offersFiles && (scopes?.includes("artifacts:write") ?? false) });
      if (scopes) break;
      this.#show({ problem: SAID[reach] ?? problem });
      if (reach === "refused") {
        // Opening the panel asks again.
        this.#visitor = null;
        return;
      }
      await sleep(pause);
    }
    this.#show({ problem: "" });
    visitor.resume().catch((problem) => this.#show({ problem: problem.message }));
  }
}
