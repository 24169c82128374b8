/** What a file holds: a picture, a table, or text. */
import { readText } from "../../../api/download.js";
import { html } from "../../../html.js";
import { readCsv } from "../../../model/csv.js";
import { Problem } from "../problem.js";
import { TableView } from "../table_view.js";
import { TextView } from "../text_view.js";
import { useImage } from "../use_image.js";
import { useLoaded } from "../use_loaded.js";
import { DocumentText } from "./document_text.js";

const TABLE_BYTES = 300_000;
const TEXTS = ["text/plain", "text/markdown", "text/html", "application/json"];

export function FileContent({ file, passage = "" }) {
  const path = `/files/${file.id}/download/`;
  if (file.content_type.startsWith("image/")) return html`<${Picture} path=${path} name=${file.name} />`;
  if (file.content_type === "text/csv") return html`<${Table} path=${path} name=${file.name} />`;
  if (passage) return html`<${DocumentText} fileId=${file.id} passage=${passage} />`;
  if (TEXTS.includes(file.content_type)) return html`<${TextView} path=${path} label=${`Text of ${file.name}`} />`;
  return html`<${DocumentText} fileId=${file.id} />`;
}

function Picture({ path, name }) {
  const address = useImage(path);
  return address && html`<img class="picture" src=${address} alt=${name} />`;
}

function Table({ path, name }) {
  const { value, problem } = useLoaded((signal) => readText(path, TABLE_BYTES, { signal }), path);
  if (problem) return html`<${Problem} of=${problem} />`;
  if (!value) return html`<p class="empty">Reading the table…</p>`;
  const { headers, rows } = readCsv(value.text);
  return html`<${TableView} sheet=${{ name, headers, rows }} />`;
}
