/** Lists the available tools with their schemas. Adds them to an agent, removes them, and lets people try them. */
import { read } from "../../../api/client.js";
import { html, useEffect, useId, useState } from "../../../html.js";
import { countText, numberText } from "../../../model/format.js";
import { toolsIn, withTools } from "../../../model/toolsets.js";
import { TryOut } from "../toolsets.js";
import { JsonView, Problem } from "../views.js";

const BUILT_IN = "";
const PAGE = 200;
const MOST = 2_000;

export function ToolPicker({ text, onText }) {
  const [open, setOpen] = useState(false);
  const { names } = toolsIn(text);
  return html`
    <details class="card tool-picker" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary><h2>Tools</h2> <span class="muted">${names.length ? names.join(", ") : "none"}</span></summary>
      ${open && html`<${Groups} names=${names} onNames=${(next) => onText(withTools(text, next))} />`}
    </details>`;
}

function Groups({ names, onNames }) {
  const { tools, total, isReading, problem } = useTools();
  const groups = new Map();
  for (const tool of tools) {
    const toolset = tool.name.includes(".") ? tool.name.slice(0, tool.name.indexOf(".")) : BUILT_IN;
    groups.set(toolset, [...(groups.get(toolset) ?? []), tool]);
  }
  const change = (name, given) => onNames(given ? [...names, name] : names.filter((each) => each !== name));
  return html`
    <${Problem} of=${problem} />
    ${tools.length > 0 && html`<p class="muted">Your selection is written to the configuration. Only agents of type <code>react_agent</code> can call tools.</p>`}
    ${[...groups].map(([toolset, tools]) => html`<${toolset ? Toolset : BuiltIn} key=${toolset} toolset=${toolset} tools=${tools} names=${names} onChange=${change} />`)}
    ${isReading && html`<p class="muted" role="status">Loading tools…</p>`}
    ${!isReading && total > tools.length && html`<p class="muted">Showing the first ${numberText(tools.length)} of ${numberText(total)}. You can add the others in the configuration.</p>`}`;
}

/** Reads the tools page by page, since a company can have hundreds. */
function useTools() {
  const [shown, setShown] = useState({ tools: [], total: 0, isReading: true, problem: null });
  useEffect(() => {
    const stop = new AbortController();
    const change = (fields) => stop.signal.aborted || setShown((before) => ({ ...before, ...fields }));
    readTools(change, stop.signal).catch((problem) => change({ isReading: false, problem }));
    return () => stop.abort();
  }, []);
  return shown;
}

async function readTools(change, signal) {
  for (let tools = [], isReading = true; isReading; ) {
    const page = await read("/tools/", { limit: PAGE, offset: tools.length }, { signal });
    tools = [...tools, ...page.tools];
    isReading = page.has_more && page.tools.length > 0 && tools.length < MOST;
    change({ tools, total: page.total, isReading });
  }
}

function BuiltIn({ tools, names, onChange }) {
  return html`
    <fieldset class="tool-group">
      <legend>Built in</legend>
      ${tools.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} toolset=${BUILT_IN} names=${names} onChange=${onChange} />`)}
    </fieldset>`;
}

/** A toolset. It's open at first if any of its tools are selected. */
function Toolset({ toolset, tools, names, onChange }) {
  const all = `${toolset}.*`;
  const chosen = tools.filter(({ name }) => names.includes(name)).length;
  const [open, setOpen] = useState(chosen > 0 || names.includes(all));
  const figure = names.includes(all) ? "all selected" : chosen ? `${chosen} of ${tools.length} selected` : countText(tools.length, "tool");
  return html`
    <details class="tool-group" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary><b>${toolset}</b> <span class="muted">${figure}</span></summary>
      ${open && html`
        <${Choice} name=${all} label=${`All of ${toolset}`} names=${names} onChange=${onChange} />
        ${tools.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} toolset=${toolset} names=${names} onChange=${onChange} />`)}`}
    </details>`;
}

function Tool({ tool, toolset, names, onChange }) {
  const [trying, setTrying] = useState(false);
  const covered = toolset && names.includes(`${toolset}.*`);
  const own = toolset ? tool.name.slice(toolset.length + 1) : tool.name;
  return html`
    <div class="tool-choice">
      <${Choice} name=${tool.name} label=${tool.name} names=${names} covered=${covered} onChange=${onChange} />
      <p class="muted">${tool.description}${tool.approval === "always" ? " Requires approval." : ""}</p>
      <details class="answer"><summary>Argument schema</summary><${JsonView} value=${tool.parameters} label=${`Schema of ${tool.name}`} /></details>
      ${toolset && html`<button type="button" class="button small" aria-expanded=${trying} onClick=${() => setTrying(!trying)}>Try ${own}</button>`}
      ${trying && html`<${TryOut} toolset=${toolset} tool=${{ ...tool, name: own }} />`}
    </div>`;
}

function Choice({ name, label, names, covered = false, onChange }) {
  const id = useId();
  return html`
    <p class="check">
      <input id=${id} type="checkbox" checked=${covered || names.includes(name)} disabled=${covered} onChange=${(event) => onChange(name, event.target.checked)} />
      <label for=${id}>${label}</label>
    </p>`;
}
