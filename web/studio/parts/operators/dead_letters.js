/** Dead-lettered messages, newest first: cause, content and replay. */
import { allows, get, session, write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { agoText, countText, momentText, numberText, sizeText } from "../../../model/format.js";
import { go, hrefOf } from "../../router.js";
import { Confirm, Dialog, SelectField, TextField } from "../forms.js";
import { useAction, useLoaded } from "../hooks.js";
import { DataTable, Icon, JsonView, Problem } from "../views.js";

const LIMIT = 25;
const PATH = "/operations/dead-letters/";
const STATES = [["", "all"], ["false", "not replayed"], ["true", "replayed"]];
// Pages can be empty, because they exclude other companies' messages. So one click reads up to this many pages.
const PAGES = 5;

/** The list of messages. `query`: the filters in the address. */
export function DeadLetters({ query, isWhole }) {
  const filters = { topic: query.get("topic") ?? "", replayed: query.get("replayed") ?? "", correlation_id: query.get("correlation_id") ?? "" };
  const { value: page, problem, refresh, set } = useLoaded((signal) => readPages({ ...filters }, signal), JSON.stringify(filters));
  const [open, setOpen] = useState(null);
  const [report, setReport] = useState("");
  const older = useAction(async () => {
    const next = await readPages({ ...filters, after: page.next });
    set({ ...next, topics: page.topics, dead_letters: [...page.dead_letters, ...next.dead_letters] });
  });
  const replay = async (letter) => {
    const { repeated } = await write("POST", `${PATH}${letter.id}/replay/`);
    setReport(repeated ? `${letter.id} was already replayed. Nothing was sent.` : `Replayed ${letter.id} to ${letter.source_topic}.`);
    set({ ...page, dead_letters: page.dead_letters.map((each) => (each.id === letter.id ? { ...each, replayed: true } : each)) });
  };
  return html`
    <section aria-labelledby="letters">
      <div class="section-head">
        <h2 id="letters">Dead-lettered messages</h2>
        ${page && isWhole && html`<span class="muted">${sumOf(page.topics)}</span>`}
        <button class="button small" onClick=${() => (setReport(""), refresh())}><${Icon} name="again" />Refresh</button>
      </div>
      <${Filters} key=${filters.correlation_id} filters=${filters} topics=${page?.topics ?? []} isWhole=${isWhole} />
      <p class="report" role="status">${report}</p>
      <${Problem} of=${older.problem ?? problem} />
      ${page && html`
        <${DataTable} label="Dead-lettered messages" items=${page.dead_letters} keyOf=${({ id }) => id} columns=${columnsOf(setOpen, isWhole)}
          empty=${page.has_more ? "No dead-lettered messages found so far. Show older ones to continue." : "No dead-lettered messages."} />
        ${page.has_more && html`<p class="paging"><button class="button small" disabled=${older.busy} onClick=${() => older.run()}>Show older</button></p>`}`}
      ${open?.kind === "details" && html`<${LetterDialog} letter=${open.letter} onClose=${() => setOpen(null)} onReplay=${mayReplay() && !open.letter.replayed ? () => setOpen({ kind: "replay", letter: open.letter }) : null} />`}
      ${open?.kind === "replay" && html`
        <${Confirm} title="Replay this message?" action="Replay" onClose=${() => setOpen(null)} onConfirm=${() => replay(open.letter)}>
          <p><code>${open.letter.id}</code> is sent to <code>${open.letter.source_topic}</code> again, unchanged. Consumers that have already processed it skip it. Fix the cause first; otherwise the message is dead-lettered again.</p>
        <//>`}
    </section>`;
}

/** Resolves to a page with at least one message, unless several pages in a row are empty. */
async function readPages(query, signal) {
  const options = signal ? { signal } : {};
  let page = await get(PATH, { limit: LIMIT, ...query }, options);
  for (let read = 1; read < PAGES && page.dead_letters.length === 0 && page.has_more; read += 1) {
    page = { ...(await get(PATH, { limit: LIMIT, ...query, after: page.next }, options)), topics: page.topics };
  }
  return page;
}

function mayReplay() {
  return allows("installation:write") || allows("company:write");
}

function sumOf(topics) {
  const [letters, waiting] = topics.reduce(([all, some], each) => [all + each.letters, some + each.not_replayed], [0, 0]);
  return `${countText(letters, "message")} kept, ${numberText(waiting)} not replayed`;
}

function Filters({ filters, topics, isWhole }) {
  const [correlation, setCorrelation] = useState(filters.correlation_id);
  const change = (fields) => go("operators/", { ...filters, ...fields });
  const submit = (event) => (event.preventDefault(), change({ correlation_id: correlation.trim() }));
  const names = [...new Set([...topics.map(({ topic }) => topic), filters.topic].filter(Boolean))];
  return html`
    <form class="filters" onSubmit=${submit}>
      ${isWhole && html`<${SelectField} label="Topic" value=${filters.topic} onValue=${(topic) => change({ topic })} options=${[["", "all"], ...names]} />`}
      <${SelectField} label="State" value=${filters.replayed} onValue=${(replayed) => change({ replayed })} options=${STATES} />
      <${TextField} label="Correlation ID" value=${correlation} onValue=${setCorrelation} maxlength="128" spellcheck="false" />
      <button class="button">Show</button>
    </form>`;
}

function columnsOf(setOpen, isWhole) {
  return [
    { label: "Dead-lettered", className: "nowrap", cell: ({ dead_since: at }) => html`<time title=${momentText(at)}>${agoText(at)}</time>` },
    { label: "Message", className: "plain", cell: (letter) => html`<${Message} letter=${letter} isWhole=${isWhole} />` },
    { label: "Cause", className: "cause", cell: ({ cause }) => html`<b>${cause.code}</b><br /><span>${clipped(cause.message)}</span>` },
    { label: "Attempts", className: "number", cell: ({ attempts }) => attempts ?? "unknown" },
    { label: "State", cell: ({ replayed }) => html`<span class=${`chip ${replayed ? "good" : "bad"}`}>${replayed ? "replayed" : "not replayed"}</span>` },
    {
      cell: (letter) => html`
        <button class="button small" aria-label=${`Details of ${letter.id}`} onClick=${() => setOpen({ kind: "details", letter })}>Details</button>
        ${mayReplay() && html`<button class="button small" aria-label=${`Replay ${letter.id}`} disabled=${letter.replayed} onClick=${() => setOpen({ kind: "replay", letter })}>Replay</button>`}`,
    },
  ];
}

function Message({ letter, isWhole }) {
  return html`
    <b>${letter.type ?? "no type"}</b><br />
    <span class="muted">${letter.topic}</span><br />
    <${Correlation} letter=${letter} />
    ${isWhole && html`<br /><small class="muted">company ${letter.company_id ?? "unknown"}</small>`}`;
}

const LONGEST = 160;

function clipped(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** A message's details. `onReplay` is null if the message can't or needn't be replayed. */
function LetterDialog({ letter, onReplay, onClose }) {
  const { value, problem } = useLoaded((signal) => get(`/operations/dead-letters/${letter.id}/`, {}, { signal }), letter.id);
  const shown = value ?? letter;
  return html`
    <${Dialog} title="Dead-lettered message" wide onClose=${onClose}>
      <dl class="facts">
        <dt>ID</dt><dd><code>${shown.id}</code></dd>
        <dt>Type</dt><dd>${shown.type ?? "none"}</dd>
        <dt>Cause</dt><dd><b>${shown.cause.code}</b> <span class="whole-text">${shown.cause.message}</span></dd>
        <dt>Attempts</dt><dd>${shown.attempts ?? "unknown"}</dd>
        <dt>Dead-lettered</dt><dd>${momentText(shown.dead_since)}, by ${shown.consumer}</dd>
        <dt>Source</dt><dd>${shown.source_topic}${value?.offset != null && `, partition ${value.partition}, offset ${value.offset}`}</dd>
        <dt>Correlation ID</dt><dd><${Correlation} letter=${shown} /></dd>
        <dt>Company</dt><dd>${shown.company_id ?? "unknown"}</dd>
      </dl>
      <${Problem} of=${problem} />
      ${value && html`
        <h3>Payload <small class="muted">${sizeText(value.payload_bytes)}</small></h3>
        ${value.payload.note ? html`<p class="muted">Hidden. ${value.payload.note}</p>` : html`<${JsonView} label="Payload" value=${value.payload.value} />`}
        <h3>Headers</h3>
        <${JsonView} label="Headers" value=${value.headers} />`}
      ${onReplay && html`<div class="dialog-actions"><button class="button primary" onClick=${onReplay}>Replay</button></div>`}
    <//>`;
}

/** A link to the timeline, if the events are those of the user's own company. */
export function Correlation({ letter: { correlation_id: id, company_id: company } }) {
  if (!id) return html`<span class="muted">no correlation ID</span>`;
  const isOwn = company === session.value.me?.company_id && allows("events:read");
  return isOwn ? html`<a href=${hrefOf("timeline/", { correlation_id: id })}>${id}</a>` : html`<code>${id}</code>`;
}
