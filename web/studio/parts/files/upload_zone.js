/** Accepts selected or dropped files, and shows the progress of their upload. */
import { addUploads, dropUploads, isUnderWay, uploadAgain, uploads } from "../../../api/uploads.js";
import { html, useEffect, useId, useRef, useState } from "../../../html.js";
import { countText, sizeText } from "../../../model/format.js";
import { useStore } from "../../../store.js";
import { useDrop } from "../hooks.js";
import { Icon } from "../views.js";

const ACCEPTED = ".png,.jpg,.jpeg,.webp,.gif,.bmp,.pdf,.docx,.doc,.txt,.md,.html,.csv,.xlsx,.xls,.json";

/** The zone. `onStored` resolves once the page shows the stored files. Until then, they stay in this list. */
export function UploadZone({ collectionId = null, onStored, children }) {
  const all = useStore(uploads).filter((each) => each.collectionId === collectionId);
  const id = useId();
  const [over, drop] = useDrop((files) => addUploads(files, collectionId));
  const said = useStored(all, onStored);
  const chosen = (event) => {
    addUploads([...event.target.files], collectionId);
    event.target.value = "";
  };
  const under = all.filter(isUnderWay);
  const shown = all.filter(({ state }) => state !== "stored");
  return html`
    <section class=${over ? "upload-zone over" : "upload-zone"} aria-label="Upload" ...${drop}>
      <p class="upload-way">
        <input id=${id} type="file" multiple accept=${ACCEPTED} class="for-screen-readers" onChange=${chosen} />
        <label for=${id} class="button primary"><${Icon} name="upload" />Upload files</label>
        <span class="muted">or drop them here. Supported types: PDF, Word, text, Markdown, HTML, tables, JSON and images.</span>
        ${children}
      </p>
      <p role="status" class="muted">${under.length ? `Uploading ${under.length}` : said}</p>
      ${shown.length > 0 && html`
        <ul class="uploads" aria-label="Uploads">${shown.map((each) => html`<${Upload} key=${each.id} upload=${each} />`)}</ul>`}
    </section>`;
}

function Upload({ upload: { id, name, size, state, sent, problem } }) {
  return html`
    <li class=${state}>
      <span class="upload-name">${name}</span> <small class="muted">${sizeText(size)}</small>
      ${state === "failed"
        ? html`
          <span class="field-problem" role="alert">${problem}</span>
          <button class="button small" onClick=${() => uploadAgain(id)}>Try again</button>
          <button class="button small" aria-label=${`Remove ${name}`} onClick=${() => dropUploads([id])}><${Icon} name="close" /></button>`
        : html`<progress max="1" value=${sent} aria-label=${`Upload of ${name}`}></progress><small class="muted">${state === "waiting" ? "waiting" : `${Math.floor(sent * 100)} %`}</small>`}
    </li>`;
}

/** Lets the page load stored files, then removes them from the list and announces their number. */
function useStored(all, onStored) {
  const [said, setSaid] = useState("");
  const busy = useRef(false);
  const count = useRef(0);
  const stored = all.filter(({ state }) => state === "stored").map(({ id }) => id);
  const waiting = all.some(isUnderWay);
  useEffect(() => {
    if (busy.current || stored.length === 0) return;
    busy.current = true;
    count.current += stored.length;
    onStored().finally(() => {
      busy.current = false;
      dropUploads(stored);
      if (!waiting) {
        setSaid(`${countText(count.current, "file was", "files were")} stored.`);
        count.current = 0;
      }
    });
  });
  return said;
}
