/** A file of the session: tables as tables, images as images, anything to download. */
import { get, send } from "../../api/client.js";
import { html, useEffect, useState } from "../../app/html.js";
import { sizeText } from "../../model/format.js";
import { Icon } from "../icon.js";
import { TableView } from "../table_view.js";

const TABLES = /\.(csv|xlsx?|json)$/i;
const IMAGES = /^image\/(png|jpeg|webp|gif|bmp)$/;

export function ArtifactCard({ sessionId, artifact }) {
  const path = `/sessions/${sessionId}/artifacts/${artifact.artifact_id}`;
  const [sheets, setSheets] = useState(null);
  const [problem, setProblem] = useState("");
  const guarded = (action) => () => action().catch((failure) => setProblem(failure.message));
  const image = useImage(IMAGES.test(artifact.content_type) ? path : null);
  return html`
    <div class="artifact-card">
      <p>
        <${Icon} name="files" /><b>${artifact.name}</b> <span class="muted">${sizeText(artifact.size)}</span>
        ${TABLES.test(artifact.name) && !sheets && html`<button class="button small" onClick=${guarded(async () => setSheets((await get(`${path}/preview/`)).sheets))}>Show table</button>`}
        <button class="button small" onClick=${guarded(() => download(path, artifact.name))}>Download</button>
      </p>
      ${image && html`<img src=${image} alt=${artifact.name} />`}
      ${sheets?.map((sheet) => html`<${TableView} key=${sheet.name} sheet=${sheet} />`)}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    </div>`;
}

function useImage(path) {
  const [address, setAddress] = useState(null);
  useEffect(() => {
    if (!path) return undefined;
    let made = null;
    send("GET", `${path}/download/`, { query: { preview: 1 } })
      .then((response) => response.blob())
      .then((blob) => setAddress((made = URL.createObjectURL(blob))))
      .catch(() => setAddress(null));
    return () => made && URL.revokeObjectURL(made);
  }, [path]);
  return address;
}

async function download(path, name) {
  const response = await send("GET", `${path}/download/`);
  const address = URL.createObjectURL(await response.blob());
  const link = Object.assign(document.createElement("a"), { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
