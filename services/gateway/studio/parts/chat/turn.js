/** One message and what became of it. */
import { html, useState } from "../../app/html.js";
import { hrefOf } from "../../app/router.js";
import { momentText, numberText } from "../../model/format.js";
import { Dialog } from "../dialog.js";
import { Icon } from "../icon.js";
import { Markdown } from "../markdown.js";
import { ArtifactCard } from "./artifact_card.js";
import { ToolCard } from "./tool_card.js";

const STATES = {
  sending: "Sending…",
  queued: "In the queue…",
  running: "Working…",
  waiting: "Waits for an answer",
  cancelled: "This turn was stopped.",
};

export function ChatTurn({ turn, sessionId, onResolve, onAgain }) {
  const text = turn.text;
  return html`
    <article class="turn" aria-busy=${!turn.hasEnded}>
      <${Question} turn=${turn} onAgain=${onAgain} />
      <div class="reply">
        ${turn.steps.filter(({ calls }) => calls.length > 0).map((step) => html`
          <div key=${step.number}>
            ${step.text && html`<${Markdown} text=${step.text} />`}
            ${step.calls.map((call) => html`<${ToolCard} key=${call.id} call=${call} onResolve=${(action, answer) => onResolve(turn, action, answer)} />`)}
          </div>`)}
        ${text && html`<${Markdown} text=${text} />`}
        <${Citations} citations=${turn.citations} />
        ${turn.artifacts.map((artifact) => html`<${ArtifactCard} key=${artifact.artifact_id} sessionId=${sessionId} artifact=${artifact} />`)}
        <${State} turn=${turn} hasText=${Boolean(text)} />
      </div>
    </article>`;
}

function Question({ turn, onAgain }) {
  return html`
    <div class="question">
      <p class="question-text">${turn.content ?? "…"}</p>
      ${turn.attachments.length > 0 && html`<p class="question-files">${turn.attachments.map((file, at) => html`<span key=${at}><${Icon} name="files" />${file.name ?? "file"}</span>`)}</p>`}
      <p class="question-facts">
        ${turn.at && html`<time datetime=${turn.at}>${momentText(turn.at)}</time>`}
        ${turn.hasEnded && turn.content && html`<button class="link" onClick=${() => onAgain(turn)}>Try again from here</button>`}
      </p>
    </div>`;
}

function State({ turn, hasText }) {
  const timeline = turn.id && html`<a href=${hrefOf("timeline/", { turn_id: turn.id })}>Timeline</a>`;
  if (turn.status === "failed" || turn.status === "refused") {
    return html`<p class="problem" role="alert">${turn.problem} ${timeline}</p>`;
  }
  if (turn.status === "completed") {
    const tokens = turn.usage && `${numberText(turn.usage.input_tokens + turn.usage.output_tokens)} tokens`;
    return html`<p class="turn-facts">${tokens && html`<span>${tokens}</span>`}${timeline}</p>`;
  }
  if (turn.status === "running" && hasText) return html`<p class="turn-facts"><span class="writing" aria-hidden="true"></span></p>`;
  return html`<p class=${`turn-facts ${turn.status}`}><span>${STATES[turn.status]}</span>${turn.status === "cancelled" && timeline}</p>`;
}

function Citations({ citations }) {
  const [open, setOpen] = useState(null);
  if (!citations.length) return null;
  return html`
    <ul class="citations" aria-label="Sources">
      ${citations.map((citation, at) => html`
        <li key=${at}><button onClick=${() => setOpen(citation)}><b>${at + 1}</b> ${placeOf(citation)}</button></li>`)}
    </ul>
    ${open && html`
      <${Dialog} title=${placeOf(open)} onClose=${() => setOpen(null)}>
        <p class="muted">${[open.knowledge_base_name, open.score != null && `score ${open.score.toFixed(2)}`].filter(Boolean).join(", ")}</p>
        <blockquote class="passage">${open.passage}</blockquote>
      <//>`}`;
}

function placeOf({ file_name: name, page, row }) {
  return [name ?? "Passage", page != null && `page ${page}`, row != null && `row ${row}`].filter(Boolean).join(", ");
}
