/** The chat in somebody's page: a button that opens a panel, in a shadow root that neither side's styles pass. */
import { sleep } from "../api/sleep.js";
import { element, icon } from "./element.js";
import { Memory } from "./memory.js";
import { Panel } from "./panel.js";
import { styleSheets } from "./styles.js";
import { publicApi, Visitor } from "./visitor.js";

const WORDS = { label: "Chat", title: "Chat", greeting: "How can we help?", placeholder: "Write a message" };
const SAID = {
  refused: `This chat does not work on this page: its key is not valid, or pages of ${location.origin} are not allowed to use it.`,
  ended: "This chat has ended: it is not available on this page any more.",
  unreachable: "The chat cannot be reached at the moment. Trying again…",
};
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
const DOUBT_MS = 3_000;
const started = new Set();

/** `settings` are the script's `data-` attributes and the `origin` that it came from. */
export function start(settings) {
  const key = settings.connectionKey || settings.agentKey;
  if (!key) {
    console.error("widget.js: the script element needs data-connection-key.");
    return;
  }
  if (started.has(key)) return;
  started.add(key);
  if (document.body) new Chat(settings, key);
  else addEventListener("DOMContentLoaded", () => new Chat(settings, key), { once: true });
}

class Chat {
  #panel;
  #visitor = null;
  #makeVisitor;
  #reach;
  #doubting = null;

  constructor(settings, key) {
    this.page = globalThis.aesChat ??= {};
    this.page.tools ??= {};
    this.settings = settings;
    this.host = element("aes-chat", { "data-theme": settings.theme, "data-position": settings.position });
    this.root = this.host.attachShadow({ mode: "open" });
    this.root.adoptedStyleSheets = styleSheets(settings.accent);
    const words = { ...WORDS, ...settings };
    this.#panel = new Panel({ ...words, mayTakeFiles: settings.files !== "off" }, { close: () => this.close(), startOver: () => this.startOver() });
    const waiting = new Set();
    const onWaiting = (stream, waits) => {
      if (waits) waiting.add(stream);
      else waiting.delete(stream);
      this.#panel.setWaiting(waiting.size > 0);
      this.#doubt(waiting.size > 0);
    };
    const api = publicApi(settings, { onWaiting, onUnreachable: () => this.#doubt(true) });
    this.#reach = api.reach;
    this.#makeVisitor = () => new Visitor(api, new Memory(key), () => this.page.tools);
    this.launcher = element("button", { className: "launcher", type: "button", "aria-expanded": "false", onclick: () => this.open() }, icon("chat"), words.label);
    this.#panel.node.hidden = true;
    this.root.append(this.launcher, this.#panel.node);
    this.#panel.node.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    Object.assign(this.page, { open: () => this.open(), close: () => this.close() });
    document.body.append(this.host);
    if (settings.open !== undefined) this.open({ focus: false });
  }

  open({ focus = true } = {}) {
    this.#toggle(true);
    if (focus) this.#panel.field.focus();
    if (!this.#visitor) this.#begin();
  }

  close() {
    this.#toggle(false);
    this.launcher.focus();
  }

  startOver() {
    this.#visitor?.startOver();
    this.#visitor = null;
    this.#begin();
    this.#panel.field.focus();
  }

  #toggle(open) {
    this.#panel.node.hidden = !open;
    this.launcher.hidden = open;
    this.launcher.setAttribute("aria-expanded", String(open));
    this.host.toggleAttribute("data-open", open);
  }

  /** After a request without an answer: a page whose key has ended may not read that, so that it looks like a lost connection. */
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
    // Twice: a service that starts between the two requests of one asking looks like a refusal, too.
    for (let times = 2; times > 0; times -= 1) {
      if (signal.aborted || this.#visitor !== visitor) return;
      if ((await this.#reach()).reach !== "refused") return;
      await sleep(FIRST_PAUSE_MS, signal);
    }
    if (signal.aborted || this.#visitor !== visitor) return;
    this.#visitor = null;
    this.#panel.takeMessages(false);
    this.#panel.giveBack(visitor?.giveUp() ?? []);
    this.#panel.say(SAID.ended);
  }

  async #begin() {
    const visitor = this.#makeVisitor();
    this.#visitor = visitor;
    this.#panel.show(visitor);
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      const { reach, scopes, problem } = await this.#reach();
      if (this.#visitor !== visitor) return;
      this.#panel.takeMessages(reach !== "refused");
      this.#panel.takeFiles(scopes?.includes("artifacts:write") ?? false);
      if (scopes) break;
      this.#panel.say(SAID[reach] ?? problem);
      if (reach === "refused") {
        // Asked again when it is opened the next time.
        this.#visitor = null;
        return;
      }
      await sleep(pause);
    }
    this.#panel.say("");
    this.#panel.resume();
  }
}
