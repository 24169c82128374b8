/** Files of the company, and artifacts of sessions. */
import { allows } from "../../api/client.js";
import { html, useEffect, useState } from "../../html.js";
import { FilePage } from "../parts/files/file_page.js";
import { FileTable, useCollections, useFiles } from "../parts/files/file_table.js";
import { SessionArtifacts, SessionList } from "../parts/files/session_artifacts.js";
import { UploadZone } from "../parts/files/upload_zone.js";
import { SelectField, TextField } from "../parts/forms.js";
import { PageHead } from "../parts/views.js";
import { go, hrefOf } from "../router.js";

const LIMIT = 50;
const TYPING_MS = 300;

export default function Files({ segments, query }) {
  const [first, second] = segments;
  if (first === "sessions" && second) return html`<${SessionArtifacts} key=${second} sessionId=${second} />`;
  if (first === "sessions") return html`<${Kinds} current="sessions"><${SessionList} /><//>`;
  if (first) return html`<${FilePage} key=${first} id=${first} passage=${query.get("passage") ?? ""} />`;
  return html`<${Kinds} current="company"><${CompanyFiles} query=${query} /><//>`;
}

function Kinds({ current, children }) {
  const aria = (name) => (name === current ? "true" : undefined);
  return html`
    <div class="page">
      <${PageHead} title="Files" />
      <p class="segments" role="group" aria-label="Whose">
        <a href=${hrefOf("files/")} aria-current=${aria("company")}>Of the company</a>
        ${allows("artifacts:read") && html`<a href=${hrefOf("files/sessions/")} aria-current=${aria("sessions")}>Of sessions</a>`}
      </p>
      ${children}
    </div>`;
}

/** The address holds the filters, so that a reload and a link show the same. */
function CompanyFiles({ query }) {
  const filter = { name: query.get("name") ?? "", tag: query.get("tag") ?? "", status: query.get("status") ?? "", collection_id: query.get("collection_id") ?? "" };
  const files = useFiles(filter, LIMIT);
  const collections = useCollections();
  const change = (fields) => go("files/", { ...filter, ...fields }, { replace: true });
  const filtered = Object.values(filter).some(Boolean);
  return html`
    ${allows("files:write") && html`<${UploadZone} onStored=${files.refresh} />`}
    <div class="filters" role="search" aria-label="Filters">
      <${Typed} label="Called" value=${filter.name} onValue=${(name) => change({ name })} />
      <${Typed} label="Tag" value=${filter.tag} onValue=${(tag) => change({ tag })} />
      <${SelectField} label="Status" value=${filter.status} options=${[["", "any"], "active", "inactive"]} onValue=${(status) => change({ status })} />
      <${SelectField} label="Collection" value=${filter.collection_id} options=${[["", "any"], ...(collections ?? []).map(({ id, name }) => [id, name])]} onValue=${(id) => change({ collection_id: id })} />
    </div>
    <${FileTable} files=${files} empty=${filtered ? "No file fits these filters." : "No file yet."} />`;
}

/** A field whose value counts when one has stopped typing. */
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
