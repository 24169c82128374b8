/** Toolsets: custom tools from MCP servers, OpenAPI documents or single HTTP requests. */
import { allows, get, write } from "../../api/client.js";
import { html, useState } from "../../html.js";
import { agoText, countText } from "../../model/format.js";
import { changeOf, TEMPLATES, textOf } from "../../model/toolsets.js";
import { Confirm } from "../parts/forms.js";
import { useAction, useDraft, useLoaded, useUnchanged } from "../parts/hooks.js";
import { ToolList, ToolsetEditor } from "../parts/toolsets.js";
import { DataTable, Icon, PageHead, Problem } from "../parts/views.js";
import { go, hrefOf } from "../router.js";

// A company has at most 100 toolsets.
const LIMIT = 200;
const TYPES = { mcp: "MCP server", openapi: "OpenAPI document", http: "HTTP requests" };
const BACK = { path: "toolsets/", label: "All toolsets" };

export default function Toolsets({ segments, query }) {
  const [name] = segments;
  if (!name) return html`<${ToolsetList} />`;
  // This isn't a valid toolset name, so it can't clash with one.
  if (name === "+new") return html`<${NewToolset} key=${query.get("type")} type=${query.get("type")} />`;
  return html`<${ToolsetPage} key=${name} name=${name} />`;
}

function ToolsetList() {
  const { value: page, problem } = useLoaded((signal) => get("/toolsets/", { limit: LIMIT }, { signal }), "", { changes: "toolset" });
  return html`
    <div class="page">
      <${PageHead} title="Toolsets">
        ${allows("toolsets:write") && html`<a class="button primary" href=${hrefOf("toolsets/+new/")}><${Icon} name="plus" />New toolset</a>`}
      <//>
      <p class="lead">Custom tools. Agents reference a tool as <code>toolset.tool</code>, or a whole toolset as <code>toolset.*</code>.</p>
      <${Problem} of=${problem} />
      ${page && html`<${DataTable} label="Toolsets" items=${page.toolsets} keyOf=${({ name }) => name} columns=${COLUMNS} empty="No toolsets yet." />`}
    </div>`;
}

const COLUMNS = [
  { label: "Name", className: "plain", cell: ({ name, description }) => html`<a href=${hrefOf(`toolsets/${name}/`)}>${name}</a>${description && html`<br /><span class="muted">${description}</span>`}` },
  { label: "Type", cell: ({ type }) => TYPES[type] ?? type },
  { label: "Tools", cell: ({ tools }) => tools.length },
  { label: "Version", cell: ({ version }) => version },
  { label: "Tools refreshed", className: "nowrap", cell: ({ refreshed_at: at }) => agoText(at) },
];

function NewToolset({ type }) {
  const chosen = type in TEMPLATES ? type : "mcp";
  const [text, setText, forget] = useDraft(`toolset.new.${chosen}`, TEMPLATES[chosen]);
  return html`
    <div class="page limited">
      <${PageHead} title="New toolset" back=${BACK} />
      <p class="segments" role="group" aria-label="Type">
        ${Object.entries(TYPES).map(([each, label]) => html`
          <a key=${each} href=${hrefOf("toolsets/+new/", { type: each })} aria-current=${each === chosen ? "true" : undefined}>${label}</a>`)}
      </p>
      <${ToolsetEditor} text=${text} onText=${setText} action="Create"
        save=${(body) => ({ method: "POST", path: "/toolsets/", body })} onSaved=${({ name }) => (forget(), go(`toolsets/${name}/`, {}, { replace: true }))} />
    </div>`;
}

function ToolsetPage({ name }) {
  const path = `/toolsets/${encodeURIComponent(name)}/`;
  const { value: toolset, problem, refresh, set } = useLoaded((signal) => get(path, {}, { signal }), name);
  const [open, setOpen] = useState(null);
  const [said, setSaid] = useState("");
  const again = useAction(async () => {
    const refreshed = await write("POST", `${path}refresh/`);
    setSaid(`Refreshed: ${countText(refreshed.tools.length, "tool")} in version ${refreshed.version}.`);
    set({ ...toolset, ...refreshed });
  });
  const may = allows("toolsets:write");
  return html`
    <div class="page limited">
      <${PageHead} title=${name} back=${BACK} aside=${toolset && html`<span class="muted">${TYPES[toolset.type]}, version ${toolset.version}</span>`}>
        ${toolset && may && html`
          <button class="button" disabled=${again.busy} onClick=${() => again.run()}><${Icon} name="again" />Refresh</button>
          <button class="button" aria-expanded=${open === "edit"} onClick=${() => setOpen(open === "edit" ? null : "edit")}>Change</button>
          <button class="button danger" onClick=${() => setOpen("delete")}>Delete</button>`}
      <//>
      <${Problem} of=${again.problem ?? problem} />
      <p role="status" class="muted">${said}</p>
      ${open === "edit" && html`
        <${Change} toolset=${toolset} path=${path} onSaved=${(saved) => (setOpen(null), setSaid(`Saved as version ${saved.version}.`), refresh())} />`}
      ${toolset?.description && html`<p class="lead">${toolset.description}</p>`}
      ${toolset && html`
        <div class="section-head"><h2>Tools</h2><span class="muted">refreshed ${agoText(toolset.refreshed_at)}</span></div>
        ${toolset.warnings?.map(({ message }) => html`<p class="muted">${message}.</p>`)}
        <${ToolList} toolset=${name} tools=${toolset.tools} />`}
      ${open === "delete" && html`
        <${Confirm} title=${`Delete ${name}?`} action="Delete" onClose=${() => setOpen(null)}
          onConfirm=${async () => (await write("DELETE", path), go("toolsets/"))}>
          <p>Agents that reference its tools continue without them. Their turns show a warning.</p>
        <//>`}
    </div>`;
}

function Change({ toolset, path, onSaved }) {
  const [text, setText, forget] = useDraft(`toolset.${toolset.name}.${toolset.version}`, textOf(toolset));
  const check = useUnchanged(toolset, () => get(path), textOf);
  return html`
    <${ToolsetEditor} text=${text} onText=${setText} action="Save" check=${check} save=${(body) => ({ method: "PATCH", path, body: changeOf(toolset, body) })}
      onSaved=${(saved) => (forget(), onSaved(saved))} />`;
}
