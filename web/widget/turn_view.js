/** A message and what became of it, as a visitor sees it. */
import { element } from "./element.js";
import { Blocks } from "../chat/markdown.js";

const STATES = {
  sending: "Sending…",
  queued: "In the queue…",
  running: "Working…",
  cancelled: "This answer was stopped.",
};

class MarkdownView {
  #blocks = new Blocks();
  node = element("div", { className: "markdown" });

  show(text) {
    this.#blocks.show(this.node, text);
  }
}

export class TurnView {
  #texts = new Map();
  #told = "";

  constructor(turn, onDownload) {
    this.#download = onDownload;
    this.question = element("div", { className: "question" });
    this.steps = element("div");
    this.answer = new MarkdownView();
    this.facts = element("div");
    this.node = element("article", { className: "turn" }, this.question, this.steps, this.answer.node, this.facts);
    this.show(turn);
  }

  #download;

  show(turn) {
    this.node.setAttribute("aria-busy", String(!turn.hasEnded));
    const files = turn.attachments.map(({ name, artifact }) => artifact?.name || name || "file").join(", ");
    this.question.textContent = [turn.content, files && `📎 ${files}`].filter(Boolean).join("\n") || "…";
    for (const step of turn.steps.filter(({ calls }) => calls.length)) this.#step(step);
    this.answer.show(turn.text);
    this.#facts(turn);
  }

  /** What was said before the agent used its tools, which are not for visitors. */
  #step({ number, text }) {
    let view = this.#texts.get(number);
    if (!view) {
      view = new MarkdownView();
      this.#texts.set(number, view);
      this.steps.append(view.node);
    }
    view.show(text);
  }

  /** What follows the text is made anew only when it says something else, so that what is open stays open. */
  #facts(turn) {
    const state = stateOf(turn);
    const told = JSON.stringify([state, turn.problem, turn.citations.length, turn.artifacts.length, turn.status]);
    if (told === this.#told) return;
    this.#told = told;
    this.facts.replaceChildren(
      ...turn.artifacts.map((artifact) =>
        element("button", { className: "file", type: "button", onclick: () => this.#download(artifact) }, `Download ${artifact.name}`)),
      ...(turn.citations.length ? [sources(turn.citations)] : []),
      ...(state ? [state.isProblem ? element("p", { className: "problem", role: "alert" }, state.text) : stateLine(turn, state)] : []),
    );
  }
}

function stateLine(turn, { text }) {
  return element("p", { className: "note" }, turn.hasEnded ? null : element("span", { className: "busy" }), text);
}

function stateOf(turn) {
  if (turn.status === "failed" || turn.status === "refused") {
    const reference = turn.reference && `Reference: ${turn.reference}`;
    return { text: [turn.problem || "This did not work.", reference].filter(Boolean).join(" "), isProblem: true };
  }
  if (turn.status === "completed" || (turn.status === "running" && turn.text)) return null;
  if (turn.calls.some(({ action }) => action?.kind === "approval")) return { text: "Waits for somebody's approval…" };
  return { text: turn.status === "waiting" ? "Waits for an answer…" : STATES[turn.status] };
}

function sources(citations) {
  const passages = citations.map(({ file_name: name, page, row, passage }) => {
    const place = [name ?? "Passage", page != null && `page ${page}`, row != null && `row ${row}`].filter(Boolean).join(", ");
    return element("li", {}, element("b", {}, place), element("blockquote", {}, passage ?? ""));
  });
  const count = citations.length === 1 ? "1 source" : `${citations.length} sources`;
  return element("details", {}, element("summary", {}, count), element("ol", {}, passages));
}
