/** Sessions, whose artifacts can be looked at. */
import { get } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { hrefOf } from "../../router.js";
import { agoText } from "../../../model/format.js";
import { DataTable } from "../data_table.js";
import { Paging } from "../paging.js";
import { Problem } from "../problem.js";
import { useLoaded } from "../use_loaded.js";

const LIMIT = 50;

const COLUMNS = [
  { label: "Agent", className: "plain", cell: ({ session_id: id, agent_config: config }) => html`<a href=${hrefOf(`files/sessions/${id}/`)}>${config?.name ?? "Agent"}</a>` },
  { label: "Session", cell: ({ session_id: id }) => html`<code class="muted">${id}</code>` },
  { label: "Made", className: "nowrap", cell: ({ created_at: at }) => agoText(at) },
];

export function SessionList() {
  const [offset, setOffset] = useState(0);
  const { value: page, problem } = useLoaded((signal) => get("/sessions/", { limit: LIMIT, offset }, { signal }), offset, { changes: "session" });
  return html`
    <${Problem} of=${problem} />
    ${page && html`
      <${DataTable} label="Sessions" items=${page.sessions} keyOf=${({ session_id: id }) => id} columns=${COLUMNS} empty="No session yet." />
      <${Paging} offset=${offset} shown=${page.sessions.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}`;
}
