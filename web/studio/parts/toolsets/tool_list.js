/** The tools of a toolset with what they take, and a way to try each. */
import { html, useState } from "../../../html.js";
import { JsonView } from "../json_view.js";
import { TryOut } from "./try_out.js";

export function ToolList({ toolset, tools }) {
  if (tools.length === 0) return html`<p class="empty">It offers no tool.</p>`;
  return html`<ul class="tool-list">${tools.map((tool) => html`<${Tool} key=${tool.name} toolset=${toolset} tool=${tool} />`)}</ul>`;
}

function Tool({ toolset, tool }) {
  const [trying, setTrying] = useState(false);
  const facts = [
    tool.approval === "always" && "asks for approval",
    tool.safe_to_repeat ? "safe to repeat" : "not repeated",
    `${tool.timeout_seconds} s`,
    tool.safe_to_repeat && `${tool.retries} retries`,
  ];
  return html`
    <li class="card">
      <div class="card-head">
        <h3><code>${toolset}.${tool.name}</code></h3>
        <button class="button small" aria-expanded=${trying} onClick=${() => setTrying(!trying)}>Try ${tool.name}</button>
      </div>
      ${tool.description && html`<p>${tool.description}</p>`}
      <p class="muted">${tool.method ? `${tool.method} ${tool.url}; ` : ""}${facts.filter(Boolean).join(", ")}</p>
      <details class="answer"><summary>Schema of its arguments</summary><${JsonView} value=${tool.parameters} label=${`Schema of ${tool.name}`} /></details>
      ${trying && html`<${TryOut} toolset=${toolset} tool=${tool} />`}
    </li>`;
}
