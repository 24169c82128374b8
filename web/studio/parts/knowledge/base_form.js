/** The form of a knowledge base: its files and settings. */
import { get, write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { numberText } from "../../../model/format.js";
import { bodyOf, ENGINES, formOf, problemAt, STRATEGIES, UNITS } from "../../../model/knowledge.js";
import { go, hrefOf } from "../../router.js";
import { useCollections } from "../files/file_table.js";
import { SelectField, TextField } from "../forms.js";
import { useAction, useLoaded, useUnchanged } from "../hooks.js";
import { PageHead, Problem } from "../views.js";

const SHOWN = ["name", "description", "chunking_strategy", "embedding_config", "processing_engine"];

/** The form for the knowledge base `id`, or for a new one from `fileIds`. */
export function BaseForm({ id, fileIds = [] }) {
  const { value: given, problem } = useLoaded((signal) => (id ? get(`/knowledge-bases/${id}/`, {}, { signal }) : {}), id ?? "");
  const back = id ? { path: `knowledge/${id}/`, label: given?.name ?? "Knowledge base" } : { path: "knowledge/", label: "All knowledge" };
  return html`
    <div class="page">
      <${PageHead} title=${id ? "Edit knowledge base" : "New knowledge base"} back=${back} />
      <${Problem} of=${problem} />
      ${given && html`<${Form} given=${id ? given : null} fileIds=${id ? given.file_ids : fileIds} />`}
    </div>`;
}

function Form({ given, fileIds }) {
  const [form, setForm] = useState(() => formOf(given));
  const [collections, setCollections] = useState(given?.collection_ids ?? []);
  const [files, setFiles] = useState(fileIds);
  const check = useUnchanged(given, () => get(`/knowledge-bases/${given.id}/`), editedOf);
  const { busy, problem, run } = useAction(async ({ ingest = false } = {}) => {
    await check();
    const body = bodyOf(form, { collectionIds: collections, fileIds: files });
    const saved = await write(given ? "PATCH" : "POST", given ? `/knowledge-bases/${given.id}/` : "/knowledge-bases/", body);
    if (ingest) await write("POST", `/knowledge-bases/${saved.id}/ingest/`);
    go(`knowledge/${saved.id}/`, {}, { replace: !given });
  });
  const set = (name) => (value) => setForm((now) => ({ ...now, [name]: value }));
  const submit = (event) => (event.preventDefault(), run({ ingest: Boolean(given) }));
  return html`
    <form class="form" onSubmit=${submit}>
      <${TextField} label="Name" name="name" required autofocus maxlength="200" problem=${problem} value=${form.name} onValue=${set("name")} />
      <${TextField} label="Description" name="description" maxlength="10000" problem=${problem} value=${form.description} onValue=${set("description")} />
      <${ContentPicker} collections=${collections} onCollections=${setCollections} files=${files} onFiles=${setFiles} />
      <${SettingFields} form=${form} set=${set} problem=${problem} isOpen=${given !== null} />
      <${Problem} of=${problem} shown=${SHOWN} />
      <p class="form-actions">
        <button class="button primary" disabled=${busy}>${given ? "Save and ingest" : "Create"}</button>
        ${given && html`<button type="button" class="button" disabled=${busy} onClick=${() => run()}>Save</button>`}
        <a class="button" href=${hrefOf(given ? `knowledge/${given.id}/` : "knowledge/")}>Cancel</a>
      </p>
    </form>`;
}

/** Returns the fields that a save changes before any ingestion. */
function editedOf(knowledgeBase) {
  return JSON.stringify([formOf(knowledgeBase), knowledgeBase.collection_ids, knowledgeBase.file_ids]);
}

function SettingFields({ form, set, problem, isOpen }) {
  const chunking = (name) => problemAt(problem, "chunking_strategy", name);
  const embedding = (name) => problemAt(problem, "embedding_config", name);
  const isWrong = problem?.details?.some(({ loc }) => SHOWN.slice(2).includes(loc[0]));
  return html`
    <details open=${isOpen || isWrong}>
      <summary>Settings: engine, chunks, embedding</summary>
      <${SelectField} label="Engine" name="processing_engine" problem=${problem} value=${form.engine} options=${ENGINES} onValue=${set("engine")} />
      <h3>Chunks</h3>
      <div class="form-row">
        <${SelectField} label="Strategy" name="strategy" problem=${chunking("strategy")} value=${form.strategy} options=${STRATEGIES} onValue=${set("strategy")} />
        <${SelectField} label="Unit" name="split_by" problem=${chunking("split_by")} value=${form.unit} options=${UNITS} onValue=${set("unit")} />
        <${TextField} label="Size" name="chunk_size" inputmode="numeric" problem=${chunking("chunk_size")} value=${form.size} onValue=${set("size")} />
        <${TextField} label="Overlap" name="chunk_overlap" inputmode="numeric" placeholder="an eighth of the size, up to 64" problem=${chunking("chunk_overlap")} value=${form.overlap} onValue=${set("overlap")} />
      </div>
      ${form.strategy === "recursive" && html`
        <${TextField} label="Separators" name="recursive_separators" spellcheck="false" hint="In quotes, separated by spaces. They're tried in order." problem=${chunking("recursive_separators")} value=${form.separators} onValue=${set("separators")} />`}
      <h3>Embedding</h3>
      <div class="form-row">
        <${TextField} label="Provider" name="provider" hint="wordllama (built in) or openai." problem=${embedding("provider")} value=${form.provider} onValue=${set("provider")} />
        <${TextField} label="Model" name="model" hint="Defaults to the provider's usual model." problem=${embedding("model")} value=${form.model} onValue=${set("model")} />
        <${TextField} label="Dimensions" name="dimensions" inputmode="numeric" hint="Defaults to the model's." problem=${embedding("dimensions")} value=${form.dimensions} onValue=${set("dimensions")} />
      </div>
      <${Problem} of=${problemOfGroups(problem)} />
      <p class="hint">Changed settings build a new index. Searches use the old one until the new one is complete.</p>
    </details>`;
}

/** Returns errors that concern a whole group, such as an overlap larger than the size. */
function problemOfGroups(problem) {
  const details = (problem?.details ?? []).filter(({ loc }) => ["chunking_strategy", "embedding_config"].includes(loc[0]) && loc.length === 1);
  return details.length ? { message: "Some settings are invalid.", details } : null;
}

const LIMIT = 200;

/** Lets people choose collections and files, or only files if `collections` is null. */
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
        <span class="muted" role="status">${files.length} selected${page && page.total > page.files.length ? `; the newest ${page.files.length} of ${numberText(page.total)} shown` : ""}</span>
      </p>
      ${page?.files.length === 0 && html`<p class="muted">${filter ? "No matching files." : "No files yet. Upload some first."}</p>`}
      <ul class="check-list">
        ${page?.files.map(({ id, name }) => html`
          <li key=${id}><label><input type="checkbox" checked=${files.includes(id)} onChange=${() => onFiles(toggle(files, id))} />${name}</label></li>`)}
      </ul>
    </fieldset>`;
}
