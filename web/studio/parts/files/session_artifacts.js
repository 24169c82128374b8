/** A session's artifacts: uploads, and files created by its agent, which can be copied to the company's files. */
import { allows, download, get, write } from "../../../api/client.js";
import { html, useEffect, useState } from "../../../html.js";
import { agoText } from "../../../model/format.js";
import { hrefOf } from "../../router.js";
import { ArtifactCard } from "../chat/details.js";
import { useAction, useLoaded } from "../hooks.js";
import { Icon, PageHead, Paging, Problem, StatusChip } from "../views.js";

const LIMIT = 50;
const LOOK_AGAIN_MS = 2_000;

export function SessionArtifacts({ sessionId }) {
  const [offset, setOffset] = useState(0);
  const path = `/sessions/${sessionId}/artifacts/`;
  const { value: page, problem, refresh } = useLoaded((signal) => get(path, { limit: LIMIT, offset }, { signal }), offset);
  const all = useAction(() => download(`${path}download-all/`, "artifacts.zip"));
  const pending = page?.artifacts.some(({ processing_status: status }) => status === "pending");
  useEffect(() => {
    if (!pending) return undefined;
    const timer = setTimeout(refresh, LOOK_AGAIN_MS);
    return () => clearTimeout(timer);
  }, [page]);
  return html`
    <div class="page">
      <${PageHead} title="Session files" back=${{ path: `chat/${sessionId}/`, label: "Conversation" }}>
        ${page?.artifacts.length > 0 && html`<button class="button" disabled=${all.busy} onClick=${() => all.run()}><${Icon} name="download" />Download all</button>`}
        <//>
      <${Problem} of=${all.problem ?? problem} />
      ${page?.artifacts.length === 0 && html`<p class="empty">No files yet. Files attached in the chat or created by the agent appear here.</p>`}
      <ul class="card-list">
        ${page?.artifacts.map((artifact) => html`<${Artifact} key=${artifact.artifact_id} sessionId=${sessionId} artifact=${artifact} onChanged=${refresh} />`)}
      </ul>
      ${page && html`<${Paging} offset=${offset} shown=${page.artifacts.length} total=${page.total} limit=${LIMIT} onOffset=${setOffset} />`}
    </div>`;
}

function Artifact({ sessionId, artifact, onChanged }) {
  const { artifact_id: id, origin, processing_status: status, error, platform_file_id: fileId, created_at: at } = artifact;
  const change = useAction(async (what) => {
    await write("POST", `/sessions/${sessionId}/artifacts/${id}/${what}/`);
    await onChanged();
  });
  const may = origin === "generated" && allows("artifacts:write") && allows("files:write");
  return html`
    <li>
      <${ArtifactCard} sessionId=${sessionId} artifact=${artifact}>
        ${may && !fileId && html`<button class="button small" disabled=${change.busy} onClick=${() => change.run("copy-to-platform")}>Copy to company files</button>`}
        ${may && fileId && html`<button class="button small" disabled=${change.busy} onClick=${() => change.run("remove-from-platform")}>Remove from company files</button>`}
        <span class="muted">${origin === "generated" ? "created by the agent" : "uploaded"} ${agoText(at)}</span>
        <${StatusChip} status=${status} />
        ${fileId && html`<a href=${hrefOf(`files/${fileId}/`)}>company file</a>`}
      <//>
      ${error && html`<p class="field-problem">${error.message}</p>`}
      <${Problem} of=${change.problem} />
    </li>`;
}
