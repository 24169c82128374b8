/** Details of a turn: its tool calls, sources and files. */
import { allows, download, get } from "../../../api/client.js";
import { placeOf } from "../../../chat/log.js";
import { html, useState } from "../../../html.js";
import { momentText, sizeText } from "../../../model/format.js";
import { hrefOf } from "../../router.js";
import { Dialog } from "../forms.js";
import { useImage, useStill } from "../hooks.js";
import { Icon, JsonView, TableView, TextView } from "../views.js";

const SAID = { running: "running…", waiting: "waiting for input", completed: "done", failed: "failed", unknown: "outcome unknown" };

/** A tool call with its arguments and result, or with a form for the answer that it needs. */
export function ToolCard({ call, onResolve }) {
  const [isOpen, setOpen] = useState(false);
  if (call.action) return html`<${Waiting} call=${call} onResolve=${onResolve} />`;
  const decision = call.decision ? `, ${call.decision === "approve" ? "approved" : call.decision === "deny" ? "denied" : call.decision}` : "";
  return html`
    <details class=${`tool-card ${call.status}`} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary><${Icon} name="tool" /><b>${call.name}</b><span>${SAID[call.status] ?? call.status}${decision}</span></summary>
      ${isOpen && call.arguments && html`<h4>Arguments</h4><${JsonView} value=${call.arguments} label="Arguments" />`}
      ${isOpen && call.output !== null && html`<h4>Result</h4><pre class="json" tabindex="0" role="region" aria-label="Result">${call.output}</pre>`}
    </details>`;
}

/** A call that needs an answer. Shows the arguments immediately, so that people see what they approve. */
function Waiting({ call, onResolve }) {
  const { kind } = call.action;
  return html`
    <section class="tool-card waiting" aria-label=${`${call.name} is waiting`}>
      <p class="tool-head"><${Icon} name="tool" /><b>${call.name}</b><span>${kind === "approval" ? "waiting for approval" : "waiting for its result"}, ${untilText(call.action)}</span></p>
      <${JsonView} value=${call.arguments ?? {}} label="Arguments" />
      ${kind === "approval"
        ? html`<${Approval} onResolve=${(answer) => onResolve(call.action, answer)} />`
        : html`<${ClientResult} onResolve=${(answer) => onResolve(call.action, answer)} />`}
    </section>`;
}

export function untilText({ expires_at: at }) {
  return `until ${momentText(at)}`;
}

function useAnswer(onResolve) {
  const [state, setState] = useState({ busy: false, problem: "" });
  const answer = async (body) => {
    setState({ busy: true, problem: "" });
    try {
      await onResolve(body);
    } catch (problem) {
      setState({ busy: false, problem: problem.message });
    }
  };
  return [state, answer];
}

export function Approval({ onResolve }) {
  const [{ busy, problem }, answer] = useAnswer(onResolve);
  const [buttons, isStill, check] = useStill();
  if (!allows("runtime:approve")) return html`<p class="muted">Approving calls requires a key with the scope <code>runtime:approve</code>.</p>`;
  // Ignore a click that was meant for what was here a moment ago. Key presses, whose `detail` is 0, always count.
  const decide = ({ detail }, decision) => (detail === 0 || check()) && answer({ decision });
  return html`
    <div class="tool-actions" ref=${buttons}>
      <button class="button primary" disabled=${busy} aria-disabled=${!isStill} onClick=${(event) => decide(event, "approve")}><${Icon} name="check" />Approve</button>
      <button class="button danger" disabled=${busy} aria-disabled=${!isStill} onClick=${(event) => decide(event, "deny")}><${Icon} name="close" />Deny</button>
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}`;
}

function ClientResult({ onResolve }) {
  const [{ busy, problem }, answer] = useAnswer(onResolve);
  const [text, setText] = useState("");
  return html`
    <textarea class="code" rows="3" aria-label="Result of the call" placeholder="Text or JSON" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
    <div class="tool-actions">
      <button class="button primary" disabled=${busy || !text} onClick=${() => answer({ output: parsed(text) })}>Submit result</button>
      <button class="button danger" disabled=${busy || !text} onClick=${() => answer({ error: text })}>Report failure</button>
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}`;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The length of a passage's start: enough to find it in its file, but short enough for an address. */
const PASSAGE = 400;

/** The passages that a reply cites. */
export function Citations({ citations }) {
  const [open, setOpen] = useState(null);
  return html`
    <ul class="citations" aria-label="Sources">
      ${citations.map((citation, at) => html`
        <li key=${at}><button onClick=${() => setOpen(citation)}><b>${at + 1}</b> ${placeOf(citation)}</button></li>`)}
    </ul>
    ${open && html`
      <${Dialog} title=${placeOf(open)} onClose=${() => setOpen(null)}>
        <p class="muted">${[open.knowledge_base_name, open.score != null && `score ${open.score.toFixed(2)}`].filter(Boolean).join(", ")}</p>
        <blockquote class="passage">${open.passage}</blockquote>
        ${open.file_id && allows("files:read") && html`<p><a href=${hrefOf(`files/${open.file_id}/`, { passage: open.passage.slice(0, PASSAGE) })}>Open the file</a></p>`}
      <//>`}`;
}

const TABLES = /\.(csv|xlsx?|json)$/i;
const TEXTS = /\.(txt|md|html)$/i;
const IMAGES = /^image\/(png|jpeg|webp|gif|bmp)$/;
const IN_PLACE = { preview: 1 };

/** An artifact. `children` are rendered after its buttons. */
export function ArtifactCard({ sessionId, artifact, children }) {
  const path = `/sessions/${sessionId}/artifacts/${artifact.artifact_id}`;
  const [sheets, setSheets] = useState(null);
  const [isTextOpen, setTextOpen] = useState(false);
  const [problem, setProblem] = useState("");
  const guarded = (action) => () => action().catch((failure) => setProblem(failure.message));
  const image = useImage(IMAGES.test(artifact.content_type) ? `${path}/download/` : null, IN_PLACE);
  return html`
    <div class="artifact-card">
      <p>
        <${Icon} name="files" /><b>${artifact.name}</b> <span class="muted">${sizeText(artifact.size)}</span>
        ${TABLES.test(artifact.name) && !sheets && html`<button class="button small" onClick=${guarded(async () => setSheets((await get(`${path}/preview/`)).sheets))}>Show table</button>`}
        ${TEXTS.test(artifact.name) && html`<button class="button small" aria-expanded=${isTextOpen} onClick=${() => setTextOpen(!isTextOpen)}>Show text</button>`}
        <button class="button small" onClick=${guarded(() => download(`${path}/download/`, artifact.name))}>Download</button>
        ${children}
      </p>
      ${image && html`<img src=${image} alt=${artifact.name} />`}
      ${isTextOpen && html`<${TextView} path=${`${path}/download/`} query=${IN_PLACE} label=${`Text of ${artifact.name}`} />`}
      ${sheets?.map((sheet) => html`<${TableView} key=${sheet.name} sheet=${sheet} />`)}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    </div>`;
}
