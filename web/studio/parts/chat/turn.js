/** One message and what became of it. */
import { Component } from "preact";
import { allows } from "../../../api/session.js";
import { html, useState } from "../../../html.js";
import { hrefOf } from "../../router.js";
import { momentText, numberText, plainText } from "../../../model/format.js";
import { Icon } from "../icon.js";
import { late } from "../late.js";
import { Markdown } from "../markdown.js";
import { useNear } from "../use_near.js";

const ToolCard = late(() => import("./tool_card.js").then((module) => module.ToolCard));
const Citations = late(() => import("./citations.js").then((module) => module.Citations));
const ArtifactCard = late(() => import("./artifact_card.js").then((module) => module.ArtifactCard));

const STATES = {
  sending: "Sending…",
  queued: "In the queue…",
  running: "Working…",
  waiting: "Waits for an answer",
  cancelled: "This turn was stopped.",
};

/** Is drawn anew only when it has changed: a conversation may have hundreds of them. */
export class ChatTurn extends Component {
  #drawn = "";

  shouldComponentUpdate({ turn, isBusy }) {
    return !turn.hasEnded || turn !== this.props.turn || isBusy !== this.props.isBusy || stampOf(turn) !== this.#drawn;
  }

  render(props) {
    this.#drawn = stampOf(props.turn);
    return html`<${Turn} ...${props} />`;
  }
}

function stampOf({ status, content, attachments, answer, usage, citations, artifacts, calls }) {
  const attached = attachments.map(({ artifact }) => artifact !== null);
  return JSON.stringify([status, content === null, attached, answer?.length, usage, citations.length, artifacts.length, calls.map((call) => [call.status, call.output?.length])]);
}

/** `beginsNear`: it is among the last ones when it appears. */
function Turn({ turn, beginsNear, sessionId, onResolve, ...asking }) {
  const text = turn.text;
  const writing = turn.status === "running" && Boolean(text);
  const [element, isNear] = useNear(".log", beginsNear || !turn.hasEnded);
  return html`
    <article class="turn" ref=${element} aria-busy=${!turn.hasEnded}>
      <${Question} turn=${turn} isNear=${isNear} ...${asking} />
      <div class="reply">
        ${turn.steps.filter(({ calls }) => calls.length > 0).map((step) => html`
          <div key=${step.number}>
            ${step.text && html`<${Text} text=${step.text} isNear=${isNear} />`}
            ${step.calls.map((call) => html`<${ToolCard} key=${call.id} call=${call} onResolve=${(action, answer) => onResolve(turn, action, answer)} />`)}
          </div>`)}
        ${text && html`<${Text} text=${text} isNear=${isNear} growing=${writing} />`}
        ${turn.hasEnded && turn.citations.length > 0 && html`<${Citations} citations=${turn.citations} />`}
        ${isNear && turn.artifacts.map((artifact) => html`<${ArtifactCard} key=${artifact.artifact_id} sessionId=${turn.sessionId ?? sessionId} artifact=${artifact} />`)}
        ${!writing && html`<${State} turn=${turn} />`}
      </div>
    </article>`;
}

/** As it was written as long as it is far away: of a long conversation only what is looked at is read as Markdown. */
function Text({ isNear, ...given }) {
  return isNear ? html`<${Markdown} ...${given} />` : html`<div class="markdown unread">${given.text}</div>`;
}

function Question({ turn, isNear, isBusy, onTryAgain, onSendAgain, onDiscard }) {
  const hasMessage = turn.content || turn.attachments.length > 0;
  return html`
    <div class="question">
      ${turn.content !== "" && html`<p class="question-text">${turn.content ?? "…"}</p>`}
      ${turn.attachments.map(({ name, artifact }, at) =>
        artifact && isNear ? html`<${ArtifactCard} key=${at} sessionId=${artifact.session_id} artifact=${artifact} />` : html`<p key=${at} class="question-file"><${Icon} name="files" />${name || "file"}</p>`)}
      <p class="question-facts">
        ${turn.at && html`<time datetime=${turn.at}>${momentText(turn.at)}</time>`}
        ${turn.status === "refused"
          ? html`<button class="link" onClick=${() => onSendAgain(turn)}>Send it again</button><button class="link" onClick=${() => onDiscard(turn)}>Discard</button>`
          : turn.id && turn.hasEnded && hasMessage && onTryAgain && html`<button class="link" disabled=${isBusy} onClick=${() => onTryAgain(turn)}>Try again from here</button>`}
      </p>
    </div>`;
}

/** Nothing while a tool runs, since its card says so: a line below cards would move with each of them. */
function State({ turn }) {
  const timeline = turn.id && html`<a href=${hrefOf("timeline/", { turn_id: turn.id })}>Timeline</a>`;
  if (turn.status === "failed" || turn.status === "refused") {
    return html`<p class="problem" role="alert">${plainText(turn.problem)} ${timeline}</p>`;
  }
  if (turn.status === "completed") {
    const tokens = turn.usage && `${numberText(turn.usage.input_tokens + turn.usage.output_tokens)} tokens`;
    return html`<p class="turn-facts">${tokens && html`<span>${tokens}</span>`}${timeline}</p>`;
  }
  if (turn.status === "running" && turn.calls.some(({ status }) => status === "running")) return null;
  return html`<p class=${`turn-facts ${turn.status}`}><span>${STATES[turn.status]}</span>${turn.status === "cancelled" && timeline}</p>`;
}
