/** A file's extracted text, with a passage highlighted. */
import { get, readText } from "../../../api/client.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../../html.js";
import { countText } from "../../../model/format.js";
import { characters, locate } from "../../../model/knowledge.js";
import { useImage, useLoaded } from "../hooks.js";
import { Problem, TableView, TextView } from "../views.js";

const PORTION = 200_000;
// The number of characters shown around a passage, and the number added by each button.
const AROUND = 3_000;
const MORE = 20_000;

export function DocumentText({ fileId, passage = "" }) {
  const { text, found, total, isWhole, problem, more } = useText(fileId, passage);
  const [window, setWindow] = useState([AROUND, AROUND]);
  const mark = useRef();
  useLayoutEffect(() => {
    mark.current?.scrollIntoView({ block: "center" });
  }, [found]);
  if (problem) return html`<${Problem} of=${problem} />${passage && html`<blockquote class="passage">${passage}</blockquote>`}`;
  if (text === null) return html`<p class="empty">Loading the text…</p>`;
  const [from, to] = found ?? [0, 0];
  const start = Math.max(0, from - window[0]);
  const end = Math.min(text.length, to + window[1]);
  const later = async () => {
    if (end + MORE > text.length && !isWhole) await more();
    setWindow([window[0], window[1] + MORE]);
  };
  return html`
    ${passage && !found && html`<p class="muted">Couldn't find this passage in the text:</p><blockquote class="passage">${passage}</blockquote>`}
    <div class="document-text" tabindex="0" role="region" aria-label="Text of the document">
      ${start > 0 && html`<button class="button small" onClick=${() => setWindow([window[0] + MORE, window[1]])}>Show previous text</button>`}
      <pre>${text.slice(start, from)}${found && html`<mark ref=${mark}>${text.slice(from, to)}</mark>`}${text.slice(to, end)}</pre>
      ${(end < text.length || !isWhole) && html`<button class="button small" onClick=${later}>Show following text</button>`}
    </div>
    <p class="muted">${countText(total, "character")}</p>`;
}

/** Reads the text until the passage is found, or to the end. */
function useText(fileId, passage) {
  const [shown, setShown] = useState({ text: null, found: null, total: 0, isWhole: false, problem: null });
  const read = useRef({ text: "", offset: 0 });
  const portion = async (signal) => {
    const { text, characters: total } = await get(`/files/${fileId}/text/`, { offset: read.current.offset, limit: PORTION }, { signal });
    read.current = { text: read.current.text + text, offset: read.current.offset + characters(text) };
    return { text: read.current.text, total, isWhole: text === "" || read.current.offset >= total };
  };
  useEffect(() => {
    const stop = new AbortController();
    read.current = { text: "", offset: 0 };
    const search = async () => {
      for (;;) {
        const now = await portion(stop.signal);
        const found = passage ? locate(now.text, passage) : null;
        if (found || now.isWhole || !passage) return setShown({ ...now, found, problem: null });
      }
    };
    search().catch((problem) => stop.signal.aborted || setShown((before) => ({ ...before, problem })));
    return () => stop.abort();
  }, [fileId, passage]);
  const more = () => portion().then((now) => setShown((before) => ({ ...before, ...now })), (problem) => setShown((before) => ({ ...before, problem })));
  return { ...shown, more };
}

const TABLE_BYTES = 300_000;
const TEXTS = ["text/plain", "text/markdown", "text/html", "application/json"];

/** A file's content: an image, a table, or text. */
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
  if (!value) return html`<p class="empty">Loading the table…</p>`;
  const { headers, rows } = readCsv(value.text);
  return html`<${TableView} sheet=${{ name, headers, rows }} />`;
}

/** Returns a CSV text's first rows as `{headers, rows}`. Quoted values may contain separators, line breaks and `""`. */
export function readCsv(text, most = 100) {
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  const separator = separatorOf(text);
  const body = text.replace(/^\ufeff/, "");
  for (let at = 0; at <= body.length && rows.length <= most; at += 1) {
    const letter = body[at];
    if (quoted && letter !== undefined) {
      if (letter !== '"') cell += letter;
      else if (body[at + 1] === '"') (cell += '"'), (at += 1);
      else quoted = false;
    } else if (letter === '"' && cell === "") quoted = true;
    else if (letter === separator) row = [...row, cell], (cell = "");
    else if (letter === "\n" || letter === undefined) {
      row.push(cell.replace(/\r$/, ""));
      if (row.length > 1 || row[0] !== "") rows.push(row);
      (row = []), (cell = "");
    } else cell += letter;
  }
  const [headers = [], ...others] = rows;
  return { headers, rows: others.slice(0, most) };
}

function separatorOf(text) {
  const first = text.slice(0, text.search(/\n|$/));
  const counts = [",", ";", "\t"].map((each) => [first.split(each).length, each]);
  return counts.reduce((best, each) => (each[0] > best[0] ? each : best))[1];
}
