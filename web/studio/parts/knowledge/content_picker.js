/** Collections and files to choose among; files alone when `collections` is null. */
import { get } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { numberText } from "../../../model/format.js";
import { useCollections } from "../files/use_collections.js";
import { Problem } from "../problem.js";
import { useLoaded } from "../use_loaded.js";

const LIMIT = 200;

export function ContentPicker({ collections, onCollections, files, onFiles }) {
  const known = useCollections();
  const [filter, setFilter] = useState("");
  const { value: page, problem } = useLoaded((signal) => get("/files/", { limit: LIMIT, name: filter.trim() }, { signal }), filter.trim(), { changes: "file" });
  const toggle = (chosen, id) => (chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id]);
  return html`
    ${collections && known?.length > 0 && html`
      <fieldset>
        <legend>Collections</legend>
        <ul class="check-list">
          ${known.map(({ id, name, data_source_count: count }) => html`
            <li key=${id}><label><input type="checkbox" checked=${collections.includes(id)} onChange=${() => onCollections(toggle(collections, id))} />${name} <span class="muted">${numberText(count)}</span></label></li>`)}
        </ul>
      </fieldset>`}
    <fieldset>
      <legend>Files</legend>
      <${Problem} of=${problem} />
      <p class="form-actions">
        <input class="narrow" type="search" aria-label="Filter" placeholder="Filter" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
        <span class="muted" role="status">${files.length} chosen${page && page.total > page.files.length ? `; the newest ${page.files.length} of ${numberText(page.total)} are shown` : ""}</span>
      </p>
      ${page?.files.length === 0 && html`<p class="muted">${filter ? "No file is called so." : "No file yet: upload some first."}</p>`}
      <ul class="check-list">
        ${page?.files.map(({ id, name }) => html`
          <li key=${id}><label><input type="checkbox" checked=${files.includes(id)} onChange=${() => onFiles(toggle(files, id))} />${name}</label></li>`)}
      </ul>
    </fieldset>`;
}
