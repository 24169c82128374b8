/** The tools that there are, to be given to an agent or taken from it, with their schemas and a way to try them. */
import { get } from "../../api/client.js";
import { html, useId, useState } from "../../app/html.js";
import { toolsIn, withTools } from "../../model/tool_names.js";
import { JsonView } from "../json_view.js";
import { Problem } from "../problem.js";
import { TryOut } from "../toolsets/try_out.js";
import { useLoaded } from "../use_loaded.js";

const BUILT_IN = "";

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
  const { value: page, problem } = useLoaded((signal) => get("/tools/", { limit: 200 }, { signal }));
  const groups = new Map();
  for (const tool of page?.tools ?? []) {
    const toolset = tool.name.includes(".") ? tool.name.slice(0, tool.name.indexOf(".")) : BUILT_IN;
    groups.set(toolset, [...(groups.get(toolset) ?? []), tool]);
  }
  const change = (name, given) => onNames(given ? [...names, name] : names.filter((each) => each !== name));
  return html`
    <${Problem} of=${problem} />
    ${page && html`<p class="muted">What is chosen is written into the configuration; an agent that calls tools is a <code>react_agent</code>.</p>`}
    ${[...groups].map(([toolset, tools]) => html`
      <fieldset key=${toolset} class="tool-group">
        <legend>${toolset || "Built in"}</legend>
        ${toolset && html`<${Choice} name=${`${toolset}.*`} label=${`All of ${toolset}`} names=${names} onChange=${change} />`}
        ${tools.map((tool) => html`<${Tool} key=${tool.name} tool=${tool} toolset=${toolset} names=${names} onChange=${change} />`)}
      </fieldset>`)}`;
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
