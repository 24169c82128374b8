/** A toolset as YAML or JSON. What is wrong with it is said at its line when it is saved, since its target is asked then. */
import { write } from "../../../api/client.js";
import { allows } from "../../../api/session.js";
import { html, useRef, useState } from "../../../html.js";
import { ProblemList } from "../agents/problem_list.js";
import { problemsOf } from "../agents/use_validation.js";
import { showLine } from "../show_line.js";

/** `save(text)` names the request: `{method, path, body}`. */
export function ToolsetEditor({ text, onText, save, action, onSaved }) {
  const [state, setState] = useState({ busy: false, problems: [] });
  const field = useRef();
  const submit = async () => {
    setState({ busy: true, problems: [] });
    try {
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
        <button class="button primary" disabled=${busy || !allows("toolsets:write")} onClick=${submit}>${busy ? "Asking for its tools…" : action}</button>
      </div>
    </div>`;
}
