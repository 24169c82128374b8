/** The tools that there are, to be given to an agent or taken from it, with their schemas and a way to try them. */
import { get } from "../../api/client.js";
import { html, useId, useState } from "../../app/html.js";
import { countText, numberText } from "../../model/format.js";
import { toolsIn, withTools } from "../../model/tool_names.js";
import { JsonView } from "../json_view.js";
import { Problem } from "../problem.js";
import { TryOut } from "../toolsets/try_out.js";
import { useLoaded } from "../use_loaded.js";

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
  const { value: page, problem } = useLoaded(readTools);
  const groups = new Map();
  for (const tool of page?.tools ?? []) {
    const toolset = tool.name.includes(".") ? tool.name.slice(0, tool.name.indexOf(".")) : BUILT_IN;
    groups.set(toolset, [...(groups.get(toolset) ?? []), tool]);
  }
  const change = (name, given) => onNames(given ? [...names, name] : names.filter((each) => each !== name));
  return html`
    <${Problem} of=${problem} />
    ${page && html`<p class="muted">What is chosen is written into the configuration; an agent that calls tools is a <code>react_agent</code>.</p>`}
    ${[...groups].map(([toolset, tools]) => html`<${toolset ? Toolset : BuiltIn} key=${toolset} toolset=${toolset} tools=${tools} names=${names} onChange=${change} />`)}
    ${page?.total > page?.tools.length && html`<p class="muted">The first ${numberText(page.tools.length)} of ${numberText(page.total)} are shown; others can be written into the configuration.</p>`}`;
}

/** Reads page by page: a company may have hundreds. */
async function readTools(signal) {
  const tools = [];
  for (;;) {
    const page = await get("/tools/", { limit: PAGE, offset: tools.length }, { signal });
    tools.push(...page.tools);
    if (!page.has_more || !page.tools.length || tools.length >= MOST) return { tools, total: page.total };
  }
}

function BuiltIn({ tools, names, onChange }) {
  return html`
    <fieldset class="tool-group">
      <legend>Built in</legend>
      ${tools.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} toolset=${BUILT_IN} names=${names} onChange=${onChange} />`)}
    </fieldset>`;
}

/** Is open from the beginning where something of it is chosen. */
function Toolset({ toolset, tools, names, onChange }) {
  const all = `${toolset}.*`;
  const chosen = tools.filter(({ name }) => names.includes(name)).length;
  const [open, setOpen] = useState(chosen > 0 || names.includes(all));
  const figure = names.includes(all) ? "all chosen" : chosen ? `${chosen} of ${tools.length} chosen` : countText(tools.length, "tool");
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
      <p class="muted">${tool.description}${tool.approval === "always" ? " It asks for approval." : ""}</p>
      <details class="answer"><summary>Schema of its arguments</summary><${JsonView} value=${tool.parameters} label=${`Schema of ${tool.name}`} /></details>
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
