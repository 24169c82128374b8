/** Calls that are waiting for a decision, in all sessions that the key can read. */
import { get, write } from "../../../api/client.js";
import { html, useEffect, useRef, useState } from "../../../html.js";
import { agoText, numberText } from "../../../model/format.js";
import { hrefOf } from "../../router.js";
import { Approval, untilText } from "../chat/details.js";
import { STILL_MS, useLoaded } from "../hooks.js";
import { Icon, JsonView, Problem } from "../views.js";

const LIMIT = 6;
const MOST = 200;

/** The open approvals. `changes` has another value whenever a call may have started or stopped waiting. */
export function Approvals({ changes }) {
  const [limit, setLimit] = useState(LIMIT);
  const { value: page, problem, refresh } = useLoaded(async (signal) => ({ limit, ...(await get("/actions/", { kind: "approval", limit }, { signal })) }), limit);
  useEffect(() => {
    refresh();
  }, [changes]);
  const cards = useRef();
  // The index of the first approval that *Show more* adds, until the approvals have loaded.
  const firstNew = useRef(null);
  useEffect(() => {
    if (firstNew.current === null || page.limit !== MOST) return;
    cards.current.children[Math.min(firstNew.current, page.actions.length - 1)]?.focus();
    firstNew.current = null;
  }, [page]);
  const showMore = () => {
    firstNew.current = page.actions.length;
    setLimit(MOST);
  };
  const [decided, setDecided] = useState([]);
  const leaving = useRef(new Set());
  useEffect(() => () => leaving.current.forEach(clearTimeout), []);
  const resolve = async (action, answer) => {
    const { session_id: session, turn_id: turn, action_id: id } = action;
    await write("POST", `/runtime/${session}/turns/${turn}/actions/${id}/`, answer);
    const at = shown.findIndex(({ action_id: each }) => each === id);
    setDecided((all) => [...all, { action, at, decision: answer.decision }]);
    // Removing the focused button would move the focus to the page.
    cards.current.children[at]?.focus({ preventScroll: true });
    const timer = setTimeout(() => {
      leaving.current.delete(timer);
      setDecided((all) => all.filter((each) => each.action !== action));
    }, STILL_MS);
    leaving.current.add(timer);
    await refresh();
  };
  const shown = withDecided(page?.actions ?? [], decided);
  return html`
    <section class="overview-approvals" aria-labelledby="approvals">
      <h2 id="approvals">Open approvals${page?.total > 0 && html` <span class="chip busy">${page.total}</span>`}</h2>
      <${Problem} of=${problem} />
      ${page && shown.length === 0 && html`<p class="muted">No open approvals.</p>`}
      <div class="approval-cards" ref=${cards}>${shown.map((action) => html`
        <section key=${action.action_id} class="tool-card waiting" tabindex="-1" aria-label=${`${action.tool_call.name} is waiting`}>
          <p class="tool-head">
            <${Icon} name="tool" /><b>${action.tool_call.name}</b>
            <span>requested ${agoText(action.created_at)}, ${untilText(action)}</span>
          </p>
          <${JsonView} value=${action.tool_call.arguments} label="Arguments" />
          <${Decision} of=${decided.find((each) => each.action.action_id === action.action_id)} onResolve=${(answer) => resolve(action, answer)} />
          <p class="turn-facts">
            <a href=${hrefOf(`chat/${action.session_id}/`)}>Conversation</a>
            <a href=${hrefOf("timeline/", { turn_id: action.turn_id })}>Timeline</a>
          </p>
        </section>`)}</div>
      ${page?.total > page?.actions.length && html`
        <p class="muted approvals-more">Showing the oldest ${page.actions.length} of ${numberText(page.total)}. ${limit < MOST && html`<button class="button small" onClick=${showMore}>Show more</button>`}</p>`}
    </section>`;
}

/** Returns the open actions, and those that were just decided here, in their places. */
function withDecided(open, decided) {
  const shown = open.filter(({ action_id: id }) => !decided.some(({ action }) => action.action_id === id));
  for (const { action, at } of decided.toSorted((a, b) => a.at - b.at)) shown.splice(at, 0, action);
  return shown;
}

/** Shows the decision, or the buttons to decide. */
function Decision({ of: decided, onResolve }) {
  if (!decided) return html`<${Approval} onResolve=${onResolve} />`;
  return html`<p class="decided" role="status">${decided.decision === "approve" ? "Approved" : "Denied"}</p>`;
}
