/** Calls a tool of a toolset with arguments from a form that is made of its schema. */
import { write } from "../../../api/client.js";
import { allows } from "../../../api/session.js";
import { html, useId, useMemo, useState } from "../../../html.js";
import { durationText } from "../../../model/format.js";
import { argumentsOf, fieldsOf } from "../../../model/schema_form.js";
import { Icon } from "../icon.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";

const SECONDS = 130;

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
  if (!allows("toolsets:write")) return html`<p class="muted">Trying a tool needs the scope <code>toolsets:write</code>.</p>`;
  const submit = (event) => {
    event.preventDefault();
    const read = argumentsOf(fields, written);
    setProblems(read.problems);
    if (Object.keys(read.problems).length === 0) run(read.arguments);
  };
  return html`
    <form class="form try-out" onSubmit=${submit} noValidate aria-label=${`Try ${tool.name}`}>
      ${fields.length === 0 && html`<p class="muted">It takes no arguments.</p>`}
      ${fields.map((field) => html`
        <${Argument} key=${field.name} field=${field} value=${written[field.name]} problem=${problems[field.name]}
          onValue=${(value) => setWritten((all) => ({ ...all, [field.name]: value }))} />`)}
      <p class="form-actions">
        <button class="button primary" disabled=${busy}><${Icon} name="tool" />${busy ? "Calling…" : "Call"}</button>
        <span class="muted">This is a real call. Approval is not asked for.</span>
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
          <option value="">not given</option>
          ${choices.map((choice) => JSON.stringify(choice)).map((text) => html`<option key=${text} value=${text} selected=${text === value}>${text.replace(/^"(.*)"$/, "$1")}</option>`)}
        </select>`}
      <p class=${problem ? "field-problem" : "hint"} id=${`${id}-hint`}>${problem ?? hint}</p>
    </div>`;
}
