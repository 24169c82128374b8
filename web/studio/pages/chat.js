/** Chat with an agent and watch its work. The address names the session. */
import { allows, get, persist, randomKey, write } from "../../api/client.js";
import { checkSize } from "../../api/requests.js";
import { upload } from "../../api/uploads.js";
import { Composer, useAttachments } from "../../chat/composer.js";
import { Log } from "../../chat/log.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { agoText } from "../../model/format.js";
import { MOUNT } from "../parts/chat/mount.js";
import { handOver, useConversation } from "../parts/chat/use_conversation.js";
import { lazy, moveDraft, useAction, useDraft, useDrop, useLoaded } from "../parts/hooks.js";
import { Icon } from "../parts/views.js";
import { go, hrefOf } from "../router.js";

const TryAgain = lazy(() => import("../parts/chat/try_again.js").then((module) => module.TryAgain));
const Confirm = lazy(() => import("../parts/forms.js").then((module) => module.Confirm));
const SESSIONS = 30;
const PAGE = 200;
const UPLOAD_ATTEMPTS = 8;

let isFocusKept = false;

export default function Chat({ segments, query }) {
  const [sessionId = null] = segments;
  const { agents, sessions, hasMore, problem, refresh, more } = useLists();
  const [listed, setListed] = useState(false);
  useEffect(() => setListed(false), [sessionId]);
  return html`
    <div class="page chat">
      <${Sessions} sessions=${sessions} current=${sessionId} hasMore=${hasMore} onMore=${more} shown=${listed} onOpen=${refresh} />
      <${Talk} key=${sessionId ?? "new"} sessionId=${sessionId} agents=${agents} wanted=${query.get("agent")} problem=${problem} onMade=${refresh} listed=${listed} onList=${() => setListed(!listed)} />
    </div>`;
}

function Talk({ sessionId, agents, wanted, problem, onMade, listed, onList }) {
  const details = useSession(sessionId);
  const [agent, setAgent, forgetAgent] = useDraft(`chat.agent.${wanted ?? ""}`, wanted ?? "");
  const [failed, setFailed] = useState("");
  const made = useRef(null);
  const isListed = agent === wanted || agents?.some(({ id }) => id === agent);
  const chosen = sessionId ? (details?.agent_id ?? "") : isListed ? agent : (agents?.[0]?.id ?? "");
  const guarded = (action) => (...given) => Promise.resolve(action(...given)).catch((failure) => setFailed(failure.message));

  const sessionOf = async () => {
    if (sessionId) return sessionId;
    made.current ??= write("POST", "/sessions/", { agent_id: chosen }).then(({ session_id: id }) => id);
    try {
      return await made.current;
    } catch (failure) {
      made.current = null;
      throw failure;
    }
  };
  const files = useAttachments(async (file, { signal, onProgress }) => {
    // Check the file before creating a session for it.
    checkSize(file);
    const path = `/sessions/${await sessionOf()}/artifacts/`;
    const given = { key: randomKey(), signal, onProgress };
    return persist(() => upload(path, file, given), { signal, attempts: UPLOAD_ATTEMPTS });
  });
  const open = (id, options) => (onMade(), forgetAgent(), go(`chat/${id}/`, {}, options));
  const begun = (id) => {
    // The draft moves to the new session's field.
    moveDraft("chat.new", `chat.${id}`);
    isFocusKept = document.activeElement?.closest(".composer") !== null;
    open(id, { replace: true });
  };
  const conversation = useConversation(sessionId, { sessionOf, onBegun: begun });
  const leave = (id) => {
    moveDraft(`chat.${sessionId}`, "chat.new");
    go("chat/", { agent: id });
  };
  const say = (...message) => (setFailed(""), conversation.say(...message));
  const [asked, setAsked] = useState(null);
  const goOn = (turn, id) => {
    handOver(id, { ...turn, at: new Date().toISOString(), idempotencyKey: randomKey() });
    open(id);
  };
  const fork = useAction(async (turn, isAsked = false) => {
    const changed = isAsked ? null : await changedAgent(details);
    if (changed) {
      setAsked({ turn, agent: changed });
      return;
    }
    const { session_id: id } = await write("POST", `/sessions/${sessionId}/fork/`, { before_turn_id: turn.id });
    goOn(turn, id);
  });
  const [deleting, setDeleting] = useState(false);
  const mayWrite = allows("runtime:execute");
  const isThere = conversation.state !== "failed";
  const wrong = failed || fork.problem?.message || problem;
  const isBeginning = !sessionId && conversation.turns.some(({ status }) => status === "sending");
  const running = conversation.turns.find(({ hasEnded, id }) => !hasEnded && id);
  const [over, drop] = useDrop(files.add);
  return html`
    <section class=${over ? "talk dropping" : "talk"} aria-label="Chat" ...${drop}>
      <header class="talk-head">
        <h1 tabindex="-1">Chat</h1>
        <button class="button sessions-button" aria-expanded=${listed} aria-controls="sessions" onClick=${onList}>Sessions</button>
        <${AgentChoice} agents=${agents} chosen=${chosen} session=${details} onChoose=${sessionId ? leave : setAgent} />
        ${sessionId && isThere && html`<${OfSession} id=${sessionId} onDelete=${() => setDeleting(true)} />`}
        ${mayWrite && html`<a class="button" href=${hrefOf("chat/")}><${Icon} name="plus" />New chat</a>`}
      </header>
      <${Log}
        turns=${conversation.turns} earlier=${conversation.earlier} onEarlier=${guarded(() => conversation.loadEarlier())} mount=${MOUNT}
        sessionId=${sessionId} onTryAgain=${mayWrite ? fork.run : null} isBusy=${fork.busy} onSendAgain=${(refused) => conversation.sayAgain(refused)}
        onDiscard=${(refused) => conversation.discard(refused)} onResolve=${(...answer) => conversation.resolve(...answer)}
      ><${Beginning} conversation=${conversation} nobody=${!sessionId && agents?.length === 0} /><//>
      ${wrong && html`<p class="problem" role="alert">${wrong}</p>`}
      ${isThere && (mayWrite
        ? html`<${Writing}
            draft=${`chat.${sessionId ?? "new"}`} files=${files} disabled=${!sessionId && (!chosen || isBeginning)} running=${running} onSend=${say}
            onStop=${guarded(() => conversation.stop(running))} />`
        : html`<p class="muted">Sending messages requires a key with the scope <code>runtime:execute</code>.</p>`)}
      ${asked && html`
        <${TryAgain} ...${asked} sessionId=${sessionId} onClose=${() => setAsked(null)}
          onFork=${() => (setAsked(null), fork.run(asked.turn, true))} onMade=${(id) => goOn(asked.turn, id)} />`}
      ${deleting && html`
        <${Confirm} title="Delete this conversation?" action="Delete" onClose=${() => setDeleting(false)}
          onConfirm=${async () => (await write("DELETE", `/sessions/${sessionId}/`), onMade(), go("chat/"))}>
          <p>Its messages and files are deleted, and a running turn is stopped.</p>
        <//>`}
      <p class="drop-hint" aria-hidden="true">Drop files to attach them</p>
    </section>`;
}

/** Links to the session's other pages, and its delete button. */
function OfSession({ id, onDelete }) {
  return html`
    <a class="button" href=${hrefOf("timeline/", { session_id: id })}><${Icon} name="timeline" />Timeline</a>
    ${allows("artifacts:read") && allows("files:read") && html`<a class="button" href=${hrefOf(`files/sessions/${id}/`)}><${Icon} name="files" />Files</a>`}
    ${allows("sessions:write") && html`<button class="button danger" onClick=${onDelete}>Delete</button>`}`;
}

/** Resolves to the session's agent if the agent has changed since the session began, or to null. */
async function changedAgent(details) {
  if (!details?.agent_id || !allows("agents:read")) return null;
  try {
    const agent = await get(`/agent/${details.agent_id}/`);
    return agent.config_hash === details.config_hash ? null : agent;
  } catch (problem) {
    // The agent may have been deleted. The session keeps its own copy.
    if (problem.status === 404) return null;
    throw problem;
  }
}

function AgentChoice({ agents, chosen, session, onChoose }) {
  const unlisted = session && !agents?.some(({ id }) => id === chosen);
  return html`
    <label class="agent-choice">
      <span>Agent</span>
      <select value=${chosen} onChange=${(event) => onChoose(event.target.value)}>
        ${unlisted && html`<option value=${chosen}>${session.agent_config?.name ?? "of this session"}</option>`}
        ${(agents ?? []).map(({ id, name }) => html`<option key=${id} value=${id} selected=${id === chosen}>${name}</option>`)}
      </select>
    </label>`;
}

/** The composer with its draft. Takes the focus from the new chat whose first message created this session. */
function Writing({ draft, ...given }) {
  const [text, setText] = useDraft(draft);
  useEffect(() => {
    if (isFocusKept) document.querySelector(".composer textarea").focus();
    isFocusKept = false;
  }, []);
  return html`<${Composer} text=${text} onText=${setText} ...${given} />`;
}

/** The texts that are shown before the turns, or instead of them. */
function Beginning({ conversation: { turns, state, problem }, nobody }) {
  if (state === "loading") return html`<p class="empty">Loading the conversation…</p>`;
  if (state === "failed") return html`<p class="problem" role="alert">${problem} <a href=${hrefOf("chat/")}>Start a new chat</a></p>`;
  return turns.length === 0 && html`<p class="empty">${nobody ? html`<${Nobody} />` : "No messages yet."}</p>`;
}

function Nobody() {
  if (!allows("agents:read")) return html`Listing agents requires a key with the scope <code>agents:read</code>.`;
  return html`No agents yet. <a href=${hrefOf("agents/new/")}>Create one</a>`;
}

/** The list of sessions. On narrow screens, it's behind a button. */
function Sessions({ sessions, current, hasMore, onMore, shown, onOpen }) {
  return html`
    <aside id="sessions" class=${shown ? "sessions shown" : "sessions"} aria-label="Sessions">
      <h2>Sessions</h2>
      ${sessions?.length === 0 && html`<p class="muted">No sessions yet. The first message creates one.</p>`}
      <ul>
        ${(sessions ?? []).map((each) => html`
          <li key=${each.session_id}>
            <a href=${hrefOf(`chat/${each.session_id}/`)} aria-current=${each.session_id === current ? "page" : undefined} onClick=${onOpen}>
              <b>${each.agent_config?.name ?? "Agent"}</b><small>${agoText(each.created_at)}</small>
            </a>
          </li>`)}
      </ul>
      ${hasMore && html`<button class="button small" onClick=${onMore}>Show more</button>`}
    </aside>`;
}

function useLists() {
  const [limit, setLimit] = useState(SESSIONS);
  const { value, problem, refresh } = useLoaded(
    (signal) => Promise.all([
      allows("agents:read") ? get("/agent/", {}, { signal }) : [],
      allows("sessions:read") ? sessionsUpTo(limit, signal) : { sessions: [], total: 0 },
    ]), limit, { changes: "agent session" });
  const [agents, page] = value ?? [];
  return {
    agents, sessions: page?.sessions, hasMore: page ? page.total > page.sessions.length : false,
    problem: problem?.message ?? "", refresh, more: () => setLimit(limit * 2),
  };
}

async function sessionsUpTo(limit, signal) {
  const offsets = Array.from({ length: Math.ceil(limit / PAGE) }, (_, at) => at * PAGE);
  const pages = await Promise.all(offsets.map((offset) => get("/sessions/", { limit: Math.min(PAGE, limit - offset), offset }, { signal })));
  // A session that is created between two responses shifts the others.
  const known = new Map(pages.flatMap(({ sessions }) => sessions).map((each) => [each.session_id, each]));
  return { sessions: [...known.values()], total: pages[0].total };
}

function useSession(id) {
  return useLoaded((signal) => (id ? get(`/sessions/${id}/`, {}, { signal }) : null), id).value;
}
