/** An agent's configuration as YAML, validated as one types. */
import { send, write } from "../../api/client.js";
import { allows } from "../../api/session.js";
import { html, useMemo, useRef, useState } from "../../app/html.js";
import { go, hrefOf } from "../../app/router.js";
import { toYaml } from "../../model/yaml.js";
import { Icon } from "../icon.js";
import { useDraft } from "../use_draft.js";
import { showLine } from "../show_line.js";
import { ProblemList } from "./problem_list.js";
import { problemsOf, useValidation } from "./use_validation.js";
import { ToolPicker } from "./tool_picker.js";
import { Versions } from "./versions.js";

const NEW = `name: My agent
agent_type: react_agent
system_prompt: |
  You answer questions about …
llm_config:
  model: builtin:extractive
tools:
  - calculator
  - current_time
knowledge_bases: []
`;
// A change leaves out what it does not name: what was taken out of the text goes back to these.
const EMPTY = { system_prompt: '""', llm_config: "{}", tools: "[]", knowledge_bases: "[]", tool_policies: "{}", client_tools: "[]", output_schema: "null" };

export function Editor({ agent, onSaved }) {
  const given = useMemo(() => (agent ? toYaml(agent.system_config) : NEW), [agent]);
  const [text, setText, forget] = useDraft(agent ? `agent.${agent.id}.${agent.version_number}` : "agent.new", given);
  const [stored, setStored] = useState(given);
  const [saving, setSaving] = useState({ busy: false, problems: [], said: "" });
  const validation = useValidation(text);
  const field = useRef();
  const problems = saving.problems.length ? saving.problems : validation.problems;
  const save = async () => {
    setSaving({ busy: true, problems: [], said: "" });
    try {
      const headers = { "content-type": "application/yaml" };
      const body = agent ? text + takenOut(agent.system_config, text) : text;
      const saved = await write(agent ? "PATCH" : "POST", agent ? `/agent/${agent.id}/` : "/agent/", body, { headers });
      setSaving({ busy: false, problems: [], said: `Saved as version ${saved.version_number}.` });
      forget();
      setStored(text);
      onSaved(saved);
      if (!agent) go(`agents/${saved.id}/`, {}, { replace: true });
    } catch (problem) {
      setSaving({ busy: false, problems: problemsOf(problem, text), said: "" });
    }
  };
  const change = (next) => {
    setText(next);
    setSaving({ busy: false, problems: [], said: "" });
  };
  const verdict = { unknown: "", valid: "Valid.", invalid: "Not valid.", failed: "Could not be checked." }[validation.state];
  return html`
    <div class="editor">
      <label for="configuration">Configuration (YAML)</label>
      <textarea id="configuration" class="code" ref=${field} rows="22" spellcheck="false" value=${text}
        aria-invalid=${problems.length > 0 ? "true" : undefined} aria-describedby="configuration-problems" onInput=${(event) => change(event.target.value)}></textarea>
      <div class="editor-actions">
        <button class="button" onClick=${validation.check}><${Icon} name="check" />Validate</button>
        <button class="button primary" disabled=${saving.busy || !allows("agents:write")} onClick=${save}>Save</button>
        ${text !== stored && html`<button class="button" onClick=${() => change(stored)}>Discard changes</button>`}
        ${agent && html`<a class="button" href=${hrefOf("chat/", { agent: agent.id })}><${Icon} name="chat" />Talk to it</a>`}
        <span role="status">${saving.said || verdict}</span>
      </div>
      <div id="configuration-problems" role="alert">
        <${ProblemList} problems=${problems} label="Errors" onLine=${(line) => showLine(field.current, line)} />
      </div>
      <${ProblemList} problems=${validation.warnings} label="Warnings" onLine=${(line) => showLine(field.current, line)} />
      <${ToolPicker} text=${text} onText=${change} />
      ${agent && html`<${Versions} agent=${agent} text=${text} />`}
    </div>`;
}

function takenOut(before, text) {
  const named = new Set([...text.matchAll(/^["']?(\w+)["']?\s*:/gm)].map(([, name]) => name));
  const gone = Object.keys(before).filter((name) => name in EMPTY && !named.has(name));
  return gone.map((name) => `\n${name}: ${EMPTY[name]}`).join("");
}
