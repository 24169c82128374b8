/** A file of the session: tables as tables, images as images, anything to download. */
import { get } from "../../../api/client.js";
import { download } from "../../../api/download.js";
import { html, useState } from "../../../html.js";
import { sizeText } from "../../../model/format.js";
import { Icon } from "../icon.js";
import { TableView } from "../table_view.js";
import { TextView } from "../text_view.js";
import { useImage } from "../use_image.js";

const TABLES = /\.(csv|xlsx?|json)$/i;
const TEXTS = /\.(txt|md|html)$/i;
const IMAGES = /^image\/(png|jpeg|webp|gif|bmp)$/;
const IN_PLACE = { preview: 1 };

/** `children` stand behind its buttons. */
export function ArtifactCard({ sessionId, artifact, children }) {
  const path = `/sessions/${sessionId}/artifacts/${artifact.artifact_id}`;
  const [sheets, setSheets] = useState(null);
  const [isTextOpen, setTextOpen] = useState(false);
  const [problem, setProblem] = useState("");
  const guarded = (action) => () => action().catch((failure) => setProblem(failure.message));
  const image = useImage(IMAGES.test(artifact.content_type) ? `${path}/download/` : null, IN_PLACE);
  return html`
    <div class="artifact-card">
      <p>
        <${Icon} name="files" /><b>${artifact.name}</b> <span class="muted">${sizeText(artifact.size)}</span>
        ${TABLES.test(artifact.name) && !sheets && html`<button class="button small" onClick=${guarded(async () => setSheets((await get(`${path}/preview/`)).sheets))}>Show table</button>`}
        ${TEXTS.test(artifact.name) && html`<button class="button small" aria-expanded=${isTextOpen} onClick=${() => setTextOpen(!isTextOpen)}>Show text</button>`}
        <button class="button small" onClick=${guarded(() => download(`${path}/download/`, artifact.name))}>Download</button>
        ${children}
      </p>
      ${image && html`<img src=${image} alt=${artifact.name} />`}
      ${isTextOpen && html`<${TextView} path=${`${path}/download/`} query=${IN_PLACE} label=${`Text of ${artifact.name}`} />`}
      ${sheets?.map((sheet) => html`<${TableView} key=${sheet.name} sheet=${sheet} />`)}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    </div>`;
}
