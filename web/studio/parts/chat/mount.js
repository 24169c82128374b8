/** What the studio adds to a turn in the shared chat. */
import { html } from "../../../html.js";
import { countText, momentText, plainText } from "../../../model/format.js";
import { hrefOf } from "../../router.js";
import { lazy } from "../hooks.js";
import { Icon } from "../views.js";

const ToolCard = lazy(() => import("./details.js").then((module) => module.ToolCard));
const Citations = lazy(() => import("./details.js").then((module) => module.Citations));
const ArtifactCard = lazy(() => import("./details.js").then((module) => module.ArtifactCard));

const STATES = {
  sending: "Sending…",
  queued: "Queued…",
  running: "Working…",
  waiting: "Waiting for input",
  cancelled: "This turn was stopped.",
};

function Attached({ file: { name, artifact }, isNear }) {
  if (artifact && isNear) return html`<${ArtifactCard} sessionId=${artifact.session_id} artifact=${artifact} />`;
  return html`<p class="question-file"><${Icon} name="files" />${name || "file"}</p>`;
}

function Asking({ turn, isBusy, onTryAgain, onSendAgain, onDiscard }) {
  const hasMessage = turn.content || turn.attachments.length > 0;
  return html`
    <p class="question-facts">
      ${turn.at && html`<time datetime=${turn.at}>${momentText(turn.at)}</time>`}
      ${turn.status === "refused"
        ? html`<button class="link" onClick=${() => onSendAgain(turn)}>Send again</button><button class="link" onClick=${() => onDiscard(turn)}>Discard</button>`
        : turn.id && turn.hasEnded && hasMessage && onTryAgain && html`<button class="link" disabled=${isBusy} onClick=${() => onTryAgain(turn)}>Try again from here</button>`}
    </p>`;
}

function Outcome({ turn, isNear, sessionId }) {
  return html`
    ${turn.hasEnded && turn.citations.length > 0 && html`<${Citations} citations=${turn.citations} />`}
    ${isNear && turn.artifacts.map((artifact) => html`<${ArtifactCard} key=${artifact.artifact_id} sessionId=${turn.sessionId ?? sessionId} artifact=${artifact} />`)}`;
}

/** Returns the turn's state. It's empty while a tool runs, since the tool's card shows this. */
function stateOf({ status, usage, calls }) {
  if (status === "completed") return usage && countText(usage.input_tokens + usage.output_tokens, "token");
  return status === "running" && calls.some((call) => call.status === "running") ? null : STATES[status];
}

export const MOUNT = {
  Attached,
  Asking,
  Outcome,
  ToolCard: ({ call, turn, onResolve }) => html`<${ToolCard} call=${call} onResolve=${(action, answer) => onResolve(turn, action, answer)} />`,
  Link: ({ turn: { id } }) => id && html`<a href=${hrefOf("timeline/", { turn_id: id })}>Timeline</a>`,
  stateOf,
  problemOf: ({ problem }) => plainText(problem),
};
