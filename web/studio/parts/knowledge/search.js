/** Searches a knowledge base in one mode, or in all modes side by side. Passages open in their documents. */
import { allows, persist, send } from "../../../api/client.js";
import { html, useEffect, useId, useRef, useState } from "../../../html.js";
import { marked } from "../../../model/knowledge.js";
import { go } from "../../router.js";
import { DocumentText } from "../files/document.js";
import { Dialog } from "../forms.js";
import { Icon, Problem } from "../views.js";

const MODES = ["hybrid", "semantic", "keyword"];
const ANSWER_MS = 30_000;
const SHOWN = [5, 10, 25, 50];

/** The search form. The query is part of the address. */
export function Search({ id, path, query }) {
  const asked = { q: query.get("q") ?? "", mode: query.get("mode") ?? "hybrid", top: query.get("top") ?? "5", tag: query.get("tag") ?? "" };
  const [written, setWritten] = useState(asked.q);
  const [opened, setOpened] = useState(null);
  const field = useId();
  const found = useResults(id, asked);
  const ask = (fields) => go(path, { ...shortened({ ...asked, q: written, ...fields }) }, { replace: true });
  const submit = (event) => {
    event.preventDefault();
    ask({});
    found.again();
  };
  return html`
    <section class="knowledge-search">
      <form onSubmit=${submit} role="search">
        <label for=${field}>Search</label>
        <div class="search-row">
          <input id=${field} type="search" maxlength="10000" autocomplete="off" placeholder="A question or keywords" value=${written} onInput=${(event) => setWritten(event.target.value)} />
          <button class="button primary" aria-label="Find"><${Icon} name="search" /></button>
        </div>
        <div class="search-options">
          <fieldset class="choice">
            <legend class="for-screen-readers">Mode</legend>
            ${[...MODES, "all"].map((each) => html`
              <label key=${each}><input type="radio" name="mode" value=${each} checked=${asked.mode === each} onChange=${() => ask({ mode: each })} /><span>${each === "all" ? "side by side" : each}</span></label>`)}
          </fieldset>
          <label class="inline">Passages
            <select value=${asked.top} onChange=${(event) => ask({ top: event.target.value })}>${SHOWN.map((count) => html`<option key=${count} selected=${String(count) === asked.top}>${count}</option>`)}</select>
          </label>
          <label class="inline">Tag <input value=${asked.tag} onChange=${(event) => ask({ tag: event.target.value })} /></label>
        </div>
      </form>
      <${Problem} of=${found.problem} />
      <div class=${`results ${asked.mode}`} aria-busy=${found.busy}>
        ${found.shown?.map(({ mode, results, query: text }) => html`<${Results} key=${mode} mode=${mode} alone=${found.shown.length === 1} results=${results} query=${text} onOpen=${setOpened} />`)}
      </div>
      ${opened && html`
        <${Dialog} title=${placeOf(opened)} wide onClose=${() => setOpened(null)}><${DocumentText} fileId=${opened.file_id} passage=${opened.passage} /><//>`}
    </section>`;
}

function shortened({ q, mode, top, tag }) {
  return { q, mode: mode === "hybrid" ? "" : mode, top: top === "5" ? "" : top, tag };
}

function useResults(id, { q, mode, top, tag }) {
  const [state, setState] = useState({ shown: null, problem: null, busy: false });
  const [times, setTimes] = useState(0);
  const running = useRef(null);
  useEffect(() => {
    running.current?.abort();
    if (!q.trim()) return setState({ shown: null, problem: null, busy: false });
    const { signal } = (running.current = new AbortController());
    setState((before) => ({ ...before, busy: true }));
    const search = async (each) => {
      const body = { query: q, mode: each, top_k: Number(top) || 5, ...(tag ? { filters: { tags: [tag] } } : {}) };
      const limited = () => AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]);
      return persist(async () => (await send("POST", `/knowledge-bases/${id}/search/`, { body, signal: limited() })).json(), { signal, attempts: 5 });
    };
    Promise.all((mode === "all" ? MODES : [MODES.includes(mode) ? mode : "hybrid"]).map(search)).then(
      (shown) => signal.aborted || setState({ shown, problem: null, busy: false }),
      (problem) => signal.aborted || setState({ shown: null, problem, busy: false }),
    );
    return () => running.current.abort();
  }, [id, q, mode, top, tag, times]);
  return { ...state, again: () => setTimes((count) => count + 1) };
}

function Results({ mode, alone, results, query, onOpen }) {
  return html`
    <section aria-label=${`${mode} results`}>
      ${!alone && html`<h3>${mode}</h3>`}
      ${results.length === 0 && html`<p class="empty">No matching passages.</p>`}
      <ol class="passages">
        ${results.map((result, at) => html`
          <li key=${at}>
            <p class="passage-head">
              <b>${at + 1}</b>
              ${allows("files:read") ? html`<button class="link" onClick=${() => onOpen(result)}>${placeOf(result)}</button>` : html`<span>${placeOf(result)}</span>`}
              <meter min="0" max="1" value=${result.score} aria-label="Score">${result.score}</meter>
              <span class="muted">${result.score.toFixed(3)}</span>
            </p>
            <blockquote class="passage">${marked(result.passage, query).map(({ text, marked: isMarked }, piece) => (isMarked ? html`<mark key=${piece}>${text}</mark>` : text))}</blockquote>
          </li>`)}
      </ol>
    </section>`;
}

function placeOf({ file_name: name, page, row }) {
  return [name ?? "Passage", page != null && `page ${page}`, row != null && `row ${row}`].filter(Boolean).join(", ");
}
