/** The panel: what has been said, and where one writes. */
import { element, icon } from "./element.js";
import { Files } from "./files.js";
import { TurnView } from "./turn_view.js";

const PAINT_MS = 50;
const END_PX = 40;

export class Panel {
  #views = new Map();
  #timer = 0;
  #visitor = null;

  /** `on`: `{close, startOver}`; `makeVisitor` opens a conversation, the one from before or a new one. */
  constructor({ title, greeting, placeholder, mayTakeFiles }, on) {
    this.greeting = greeting && element("p", { className: "greeting" }, greeting);
    this.status = element("p", { className: "status", role: "status", hidden: true });
    this.log = element("div", { className: "log", role: "log", tabIndex: 0, "aria-label": "Conversation" });
    this.field = element("textarea", { rows: 1, "aria-label": "Message", placeholder, onkeydown: (event) => this.#onKey(event), oninput: () => this.#offer() });
    this.sendButton = element("button", { className: "send", "aria-label": "Send", disabled: true }, icon("send"));
    this.stopButton = element("button", { type: "button", "aria-label": "Stop", hidden: true, onclick: () => this.#guarded(() => this.#stop()) }, icon("stop"));
    this.files = new Files((file) => this.#visitor.upload(file), () => this.#offer());
    this.chooser = mayTakeFiles ? this.#chooser() : [];
    this.form = element("form", { onsubmit: (event) => this.#submit(event) },
      ...this.chooser, this.field, this.stopButton, this.sendButton);
    this.problem = element("p", { className: "problem", role: "alert", hidden: true });
    this.closeButton = element("button", { type: "button", "aria-label": "Close", title: "Close", onclick: on.close }, icon("close"));
    this.node = element("section", { className: "panel", role: "dialog", "aria-label": title },
      element("div", { className: "head" }, element("h2", {}, title),
        element("button", { type: "button", "aria-label": "Start over", title: "Start over", onclick: on.startOver }, icon("again")),
        this.closeButton),
      this.status, this.log, this.problem, this.files.node, this.form);
  }

  /** Shows another conversation. */
  show(visitor) {
    this.#visitor = visitor;
    this.#views.clear();
    this.files.clear();
    this.say("");
    this.log.replaceChildren(...(this.greeting ? [this.greeting] : []));
    visitor.changed = () => {
      this.#timer ||= setTimeout(() => {
        this.#timer = 0;
        this.#paint();
      }, PAINT_MS);
    };
    this.#paint();
  }

  /** Takes up what was said before. */
  resume() {
    this.#visitor.resume().catch((problem) => this.say(problem.message));
  }

  /** Says what is wrong; an empty text takes it back. */
  say(problem) {
    this.problem.textContent = problem;
    this.problem.hidden = !problem;
  }

  /** Offers to attach files where they are allowed. */
  takeFiles(are) {
    const [button] = this.chooser;
    if (!button) return;
    button.hidden = !are;
    button.classList.remove("unknown");
  }

  /** Takes messages; or none, so that what was written can be read and copied only. */
  takeMessages(are) {
    // What cannot be used any more would lose the focus to the page, and the panel its keys with it.
    if (!are && this.form.contains(this.node.getRootNode().activeElement)) this.closeButton.focus();
    this.field.readOnly = !are;
    if (this.chooser.length) this.chooser[0].disabled = !are;
    this.#offer();
  }

  /** Puts texts that were not sent before what is being written. */
  giveBack(texts) {
    this.field.value = [...texts, this.field.value].filter(Boolean).join("\n\n");
    this.#offer();
  }

  setWaiting(waits) {
    this.status.hidden = !waits;
    this.status.textContent = waits ? "Connection lost. Trying again…" : "";
  }

  #paint() {
    const { log } = this;
    const atEnd = log.scrollTop + log.clientHeight > log.scrollHeight - END_PX;
    const turns = this.#visitor.turns;
    for (const [turn, view] of this.#views) {
      if (turns.includes(turn)) continue;
      view.node.remove();
      this.#views.delete(turn);
    }
    turns.forEach((turn) => {
      const known = this.#views.get(turn);
      if (known) known.show(turn);
      else this.#views.set(turn, new TurnView(turn, (artifact) => this.#guarded(() => this.#visitor.download(artifact))));
    });
    const nodes = turns.map((turn) => this.#views.get(turn).node);
    const shown = [...log.querySelectorAll(".turn")];
    if (nodes.some((node, at) => node !== shown[at])) log.append(...nodes);
    if (atEnd) log.scrollTop = log.scrollHeight;
    this.#visitor.answerCalls();
    this.#offer();
  }

  get #running() {
    return this.#visitor.turns.find(({ hasEnded, id }) => !hasEnded && id);
  }

  #offer() {
    const text = this.field.value.trim();
    this.sendButton.disabled = this.field.readOnly || this.files.isUploading || (!text && !this.files.ready.length);
    this.stopButton.hidden = !this.#running;
  }

  #onKey(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.form.requestSubmit();
  }

  #submit(event) {
    event.preventDefault();
    if (this.sendButton.disabled) return;
    const [text, files] = [this.field.value.trim(), this.files.ready];
    this.field.value = "";
    this.files.clear();
    this.field.focus();
    this.log.scrollTop = this.log.scrollHeight;
    this.#guarded(async () => {
      try {
        await this.#visitor.send(text, files);
      } catch (problem) {
        // What was written is not lost with the attempt.
        this.giveBack([text]);
        throw problem;
      }
    });
  }

  #stop() {
    const running = this.#running;
    return running && this.#visitor.stop(running);
  }

  async #guarded(action) {
    this.say("");
    try {
      await action();
    } catch (problem) {
      this.say(problem.message);
    }
    this.#offer();
  }

  #chooser() {
    const chosen = element("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files" });
    chosen.addEventListener("change", () => {
      this.files.add([...chosen.files]);
      chosen.value = "";
    });
    // Its place is kept until it is known whether files are allowed.
    return [element("button", { className: "unknown", type: "button", "aria-label": "Attach files", onclick: () => chosen.click() }, icon("attach")), chosen];
  }
}
