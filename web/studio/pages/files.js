/** The company's files, and a session's artifacts, to which its conversation links. */
import { allows } from "../../api/client.js";
import { html, useEffect, useState } from "../../html.js";
import { FilePage } from "../parts/files/file_page.js";
import { FileTable, useCollections, useFiles } from "../parts/files/file_table.js";
import { SessionArtifacts } from "../parts/files/session_artifacts.js";
import { UploadZone } from "../parts/files/upload_zone.js";
import { SelectField, TextField } from "../parts/forms.js";
import { PageHead } from "../parts/views.js";
import { go } from "../router.js";

const LIMIT = 50;
const TYPING_MS = 300;

export default function Files({ segments, query }) {
  const [first, second] = segments;
  if (first === "sessions" && second) return html`<${SessionArtifacts} key=${second} sessionId=${second} />`;
  if (first) return html`<${FilePage} key=${first} id=${first} passage=${query.get("passage") ?? ""} />`;
  return html`<${CompanyFiles} query=${query} />`;
}

/** The filters are part of the address, so that they survive a reload and can be shared. */
function CompanyFiles({ query }) {
  const filter = { name: query.get("name") ?? "", tag: query.get("tag") ?? "", status: query.get("status") ?? "", collection_id: query.get("collection_id") ?? "" };
  const files = useFiles(filter, LIMIT);
  const collections = useCollections();
  const change = (fields) => go("files/", { ...filter, ...fields }, { replace: true });
  const filtered = Object.values(filter).some(Boolean);
  return html`
    <div class="page">
      <${PageHead} title="Files" />
      ${allows("files:write") && html`<${UploadZone} onStored=${files.refresh} />`}
      <div class="filters" role="search" aria-label="Filters">
        <${Typed} label="Name contains" value=${filter.name} onValue=${(name) => change({ name })} />
        <${Typed} label="Tag" value=${filter.tag} onValue=${(tag) => change({ tag })} />
        <${SelectField} label="Status" value=${filter.status} options=${[["", "any"], "active", "inactive"]} onValue=${(status) => change({ status })} />
        <${SelectField} label="Collection" value=${filter.collection_id} options=${[["", "any"], ...(collections ?? []).map(({ id, name }) => [id, name])]} onValue=${(id) => change({ collection_id: id })} />
      </div>
      <${FileTable} files=${files} empty=${filtered ? "No files match these filters." : "No files yet."} />
    </div>`;
}

/** A text field that applies its value after a pause in typing. */
function Typed({ label, value, onValue }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => onValue(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<${TextField} label=${label} type="search" value=${text} onValue=${setText} />`;
}
