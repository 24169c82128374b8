/** An agent's configuration as YAML, validated while typing, and its versions. */
import { allows, get, send, write } from "../../../api/client.js";
import { html, useEffect, useMemo, useRef, useState } from "../../../html.js";
import { momentText } from "../../../model/format.js";
import { lineDiff, lineOf, toYaml } from "../../../model/yaml.js";
import { go, hrefOf } from "../../router.js";
import { useDraft, useLoaded } from "../hooks.js";
import { Icon, Problem } from "../views.js";
import { ToolPicker } from "./tool_picker.js";

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
// Fields that a PATCH omits keep their values. So fields that were removed from the text are reset to these values.
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
  const verdict = { unknown: "", valid: "Valid.", invalid: "Invalid.", failed: "Couldn't validate." }[validation.state];
  return html`
    <div class="editor">
      <label for="configuration">Configuration (YAML)</label>
      <textarea id="configuration" class="code" ref=${field} rows="22" spellcheck="false" value=${text}
        aria-invalid=${problems.length > 0 ? "true" : undefined} aria-describedby="configuration-problems" onInput=${(event) => change(event.target.value)}></textarea>
      <div class="editor-actions">
        <button class="button" onClick=${validation.check}><${Icon} name="check" />Validate</button>
        <button class="button primary" disabled=${saving.busy || !allows("agents:write")} onClick=${() => save()}>Save</button>
        ${text !== stored && html`<button class="button" onClick=${() => change(stored)}>Discard changes</button>`}
        ${agent && html`<a class="button" href=${hrefOf("chat/", { agent: agent.id })}><${Icon} name="chat" />Open chat</a>`}
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

/** The notice that someone else has saved the agent since it was opened here. */
function Newer({ agent, onSave, onShow }) {
  return html`
    <div class="problem" role="alert">
      <p>${agent.name} was changed elsewhere and is now version ${agent.version_number}. Saving replaces that change.</p>
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

/** A configuration's problems, with their lines and how to fix them. */
export function ProblemList({ problems, label, onLine }) {
  if (!problems.length) return null;
  return html`
    <ul class=${`problem-list ${label.toLowerCase()}`} aria-label=${label}>
      ${problems.map(({ line, field, message, hint }, at) => html`
        <li key=${at}>
          ${line && html`<button type="button" class="link" onClick=${() => onLine(line)}>line ${line}</button>`}
          ${field && html`<code>${field}</code>`}
          <span>${message}</span>
          ${hint && html`<em>${hint}</em>`}
        </li>`)}
    </ul>`;
}

const PAUSE_MS = 500;

/** Returns `{state, problems, warnings, check}`. `state` is `unknown`, `valid`, `invalid` or `failed`. */
function useValidation(text) {
  const [result, setResult] = useState({ state: "unknown", problems: [], warnings: [] });
  const check = async (signal) => {
    try {
      const headers = { "content-type": "application/yaml" };
      const found = await (await send("POST", "/agent/validate/", { body: text, headers, signal })).json();
      const shown = { state: found.valid ? "valid" : "invalid", problems: found.errors, warnings: found.warnings };
      setResult({ ...shown, problems: shown.problems.map((each) => placed(each, text)), warnings: shown.warnings.map((each) => placed(each, text)) });
    } catch (problem) {
      if (problem.name !== "AbortError") setResult({ state: problem.status < 500 ? "invalid" : "failed", problems: problemsOf(problem, text), warnings: [] });
    }
  };
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => check(stop.signal), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return { ...result, check: () => check() };
}

/** Returns an error's details with their lines, or the error itself if it has no details. */
export function problemsOf(problem, text) {
  const details = problem.details?.length ? problem.details : [{ loc: [], message: problem.message, hint: null }];
  return details.map((each) => placed(each, text));
}

function placed({ loc, message, hint }, text) {
  const told = message.match(/\bline (\d+)/);
  const line = loc.length ? lineOf(text, loc) : told && Number(told[1]);
  return { line, field: loc.join("."), message, hint };
}

/** Moves to a line of a text field and selects it. */
export function showLine(field, line) {
  const lines = field.value.split("\n");
  const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  field.focus();
  field.setSelectionRange(from, from + (lines[line - 1]?.length ?? 0));
}

/** An agent's immutable versions, and a diff between one of them and the text in the editor. */
function Versions({ agent, text }) {
  const { value: page, problem } = useLoaded((signal) => get(`/agent/${agent.id}/versions/`, { limit: 200 }, { signal }), `${agent.id} ${agent.version_number}`);
  const [open, setOpen] = useState(null);
  const versions = page?.versions ?? [];
  const shown = versions.find(({ version_number: number }) => number === open);
  return html`
    <section class="card versions" aria-labelledby="versions">
      <h2 id="versions">Versions</h2>
      <${Problem} of=${problem} />
      <ul>
        ${versions.map((version) => html`
          <li key=${version.version_number}>
            <button class="button small" aria-expanded=${open === version.version_number} onClick=${() => setOpen(open === version.version_number ? null : version.version_number)}>
              ${version.version_number}
            </button>
            <small class="muted">${momentText(version.created_at)}</small>
          </li>`)}
      </ul>
      ${shown && html`<${Difference} before=${toYaml(shown.system_config)} after=${text} name=${shown.version_number} />`}
    </section>`;
}

function Difference({ before, after, name }) {
  const lines = lineDiff(before.trimEnd(), after.trimEnd());
  const same = lines.every(([kind]) => kind === " ");
  return html`
    <h3>Changes since ${name}</h3>
    ${same ? html`<p class="muted">No changes.</p>` : html`
      <pre class="json diff" tabindex="0" role="region" aria-label="Difference">${lines.map(([kind, line], at) => html`
        <span key=${at} class=${kind === "+" ? "added" : kind === "-" ? "taken" : ""}>${`${kind} ${line}`}</span>`)}</pre>`}`;
}
