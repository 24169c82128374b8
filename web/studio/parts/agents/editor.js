/** An agent's configuration as YAML, validated as one types. */
import { get, write } from "../../../api/client.js";
import { allows } from "../../../api/session.js";
import { html, useMemo, useRef, useState } from "../../../html.js";
import { go, hrefOf } from "../../router.js";
import { toYaml } from "../../../model/yaml.js";
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
  const [newer, setNewer] = useState(null);
  const save = async (isSure = false) => {
    setSaving({ busy: true, problems: [], said: "" });
    try {
      const now = agent && !isSure ? await get(`/agent/${agent.id}/`) : agent;
      if (now && now.updated_at !== agent.updated_at) {
        setSaving({ busy: false, problems: [], said: "Not saved." });
        setNewer(now);
        return;
      }
      setNewer(null);
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
  const show = () => {
    const next = toYaml(newer.system_config);
    setText(next);
    setStored(next);
    forget();
    setNewer(null);
    setSaving({ busy: false, problems: [], said: "" });
    onSaved(newer);
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
        <button class="button primary" disabled=${saving.busy || !allows("agents:write")} onClick=${() => save()}>Save</button>
        ${text !== stored && html`<button class="button" onClick=${() => change(stored)}>Discard changes</button>`}
        ${agent && html`<a class="button" href=${hrefOf("chat/", { agent: agent.id })}><${Icon} name="chat" />Talk to it</a>`}
        <span role="status">${saving.said || verdict}</span>
      </div>
      ${newer && html`<${Newer} agent=${newer} onSave=${() => save(true)} onShow=${show} />`}
      <div id="configuration-problems" role="alert">
        <${ProblemList} problems=${problems} label="Errors" onLine=${(line) => showLine(field.current, line)} />
      </div>
      <${ProblemList} problems=${validation.warnings} label="Warnings" onLine=${(line) => showLine(field.current, line)} />
      <${ToolPicker} text=${text} onText=${change} />
      ${agent && html`<${Versions} agent=${agent} text=${text} />`}
    </div>`;
}

/** Somebody else has saved it since it was opened here. */
function Newer({ agent, onSave, onShow }) {
  return html`
    <div class="problem" role="alert">
      <p>${agent.name} has been changed elsewhere since you opened it: it is version ${agent.version_number} now. Saving replaces that change.</p>
      <p class="actions">
        <button class="button small" onClick=${onShow}>Discard mine, show version ${agent.version_number}</button>
        <button class="button small danger" onClick=${onSave}>Save anyway</button>
      </p>
    </div>`;
}

function takenOut(before, text) {
  const named = new Set([...text.matchAll(/^["']?(\w+)["']?\s*:/gm)].map(([, name]) => name));
  const gone = Object.keys(before).filter((name) => name in EMPTY && !named.has(name));
  return gone.map((name) => `\n${name}: ${EMPTY[name]}`).join("");
}
