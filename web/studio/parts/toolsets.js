/** Toolsets as text, their tools, and a form to try each one. */
import { allows, write } from "../../api/client.js";
import { html, useId, useMemo, useRef, useState } from "../../html.js";
import { countText, durationText } from "../../model/format.js";
import { argumentsOf, fieldsOf } from "../../model/toolsets.js";
import { ProblemList, problemsOf, showLine } from "./agents/editor.js";
import { useAction } from "./hooks.js";
import { Icon, JsonView, Problem } from "./views.js";

/**
 * The editor. `save(text)` returns the request as `{method, path, body}`. `check()` throws if it mustn't be sent yet.
 */
export function ToolsetEditor({ text, onText, save, check, action, onSaved }) {
  const [state, setState] = useState({ busy: false, problems: [] });
  const field = useRef();
  const submit = async () => {
    setState({ busy: true, problems: [] });
    try {
      await check?.();
      const { method, path, body } = save(text);
      const saved = await write(method, path, body, { headers: { "content-type": "application/yaml" } });
      setState({ busy: false, problems: [] });
      onSaved(saved);
    } catch (problem) {
      setState({ busy: false, problems: problemsOf(problem, text) });
    }
  };
  const { busy, problems } = state;
  return html`
    <div class="editor">
      <label for="toolset-text">Configuration (YAML or JSON)</label>
      <textarea id="toolset-text" class="code" ref=${field} rows="18" spellcheck="false" value=${text} aria-describedby="toolset-problems"
        aria-invalid=${problems.length > 0 ? "true" : undefined} onInput=${(event) => (onText(event.target.value), setState({ busy, problems: [] }))}></textarea>
      <div id="toolset-problems" role="alert">
        <${ProblemList} problems=${problems} label="Errors" onLine=${(line) => showLine(field.current, line)} />
      </div>
      <div class="editor-actions">
        <button class="button primary" disabled=${busy || !allows("toolsets:write")} onClick=${submit}>${busy ? "Fetching the tools…" : action}</button>
      </div>
    </div>`;
}

/** The tools of a toolset with their arguments, and a form to try each one. */
export function ToolList({ toolset, tools }) {
  if (tools.length === 0) return html`<p class="empty">This toolset has no tools.</p>`;
  return html`<ul class="tool-list">${tools.map((tool) => html`<${Tool} key=${tool.name} toolset=${toolset} tool=${tool} />`)}</ul>`;
}

function Tool({ toolset, tool }) {
  const [trying, setTrying] = useState(false);
  const facts = [
    tool.approval === "always" && "requires approval",
    tool.safe_to_repeat ? "safe to retry" : "never retried",
    `${tool.timeout_seconds} s`,
    tool.safe_to_repeat && countText(tool.retries, "retry", "retries"),
  ];
  return html`
    <li class="card">
      <div class="card-head">
        <h3><code>${toolset}.${tool.name}</code></h3>
        <button class="button small" aria-expanded=${trying} onClick=${() => setTrying(!trying)}>Try ${tool.name}</button>
      </div>
      ${tool.description && html`<p>${tool.description}</p>`}
      <p class="muted">${tool.method ? `${tool.method} ${tool.url}; ` : ""}${facts.filter(Boolean).join(", ")}</p>
      <details class="answer"><summary>Argument schema</summary><${JsonView} value=${tool.parameters} label=${`Schema of ${tool.name}`} /></details>
      ${trying && html`<${TryOut} toolset=${toolset} tool=${tool} />`}
    </li>`;
}

const SECONDS = 130;

/** Calls a tool with arguments from a form generated from its schema. */
export function TryOut({ toolset, tool }) {
  const fields = useMemo(() => fieldsOf(tool.parameters), [tool.parameters]);
  const [written, setWritten] = useState(() => Object.fromEntries(fields.map(({ name, initial }) => [name, initial])));
  const [problems, setProblems] = useState({});
  const [result, setResult] = useState(null);
  const { busy, problem, run } = useAction(async (given) => {
    setResult(null);
    const path = `/toolsets/${toolset}/tools/${encodeURIComponent(tool.name)}/call/`;
    setResult(await write("POST", path, { arguments: given }, { signal: AbortSignal.timeout(SECONDS * 1000) }));
  });
  if (!allows("toolsets:write")) return html`<p class="muted">Trying a tool requires the scope <code>toolsets:write</code>.</p>`;
  const submit = (event) => {
    event.preventDefault();
    const read = argumentsOf(fields, written);
    setProblems(read.problems);
    if (Object.keys(read.problems).length === 0) run(read.arguments);
  };
  return html`
    <form class="form try-out" onSubmit=${submit} noValidate aria-label=${`Try ${tool.name}`}>
      ${fields.length === 0 && html`<p class="muted">This tool takes no arguments.</p>`}
      ${fields.map((field) => html`
        <${Argument} key=${field.name} field=${field} value=${written[field.name]} problem=${problems[field.name]}
          onValue=${(value) => setWritten((all) => ({ ...all, [field.name]: value }))} />`)}
      <p class="form-actions">
        <button class="button primary" disabled=${busy}><${Icon} name="tool" />${busy ? "Calling…" : "Call"}</button>
        <span class="muted">This really calls the tool, without asking for approval.</span>
      </p>
      <${Problem} of=${problem} />
      <div role="status">
        ${result && html`
          <p><span class=${`chip ${result.status === "failed" ? "bad" : "good"}`}>${result.status}</span> <span class="muted">${durationText(result.seconds * 1000)}</span></p>
          <pre class="json" tabindex="0" role="region" aria-label="Output">${result.output}</pre>`}
      </div>
    </form>`;
}

function Argument({ field, value, problem, onValue }) {
  const id = useId();
  const { kind, label, hint, required, options } = field;
  const given = { id, "aria-describedby": `${id}-hint`, "aria-invalid": problem ? "true" : undefined, required };
  const typed = (event) => onValue(event.target.value);
  const choices = kind === "boolean" ? [true, false] : options;
  return html`
    <div class="field">
      <label for=${id}>${label}${required && html` <span class="muted">(required)</span>`}</label>
      ${kind === "text" && html`<textarea rows="1" value=${value} onInput=${typed} ...${given}></textarea>`}
      ${kind === "number" && html`<input inputmode="decimal" autocomplete="off" value=${value} onInput=${typed} ...${given} />`}
      ${kind === "json" && html`<textarea class="code" rows="2" spellcheck="false" placeholder="JSON" value=${value} onInput=${typed} ...${given}></textarea>`}
      ${choices && html`
        <select value=${value} onChange=${typed} ...${given}>
          <option value="">not set</option>
          ${choices.map((choice) => JSON.stringify(choice)).map((text) => html`<option key=${text} value=${text} selected=${text === value}>${text.replace(/^"(.*)"$/, "$1")}</option>`)}
        </select>`}
      <p class=${problem ? "field-problem" : "hint"} id=${`${id}-hint`}>${problem ?? hint}</p>
    </div>`;
}
