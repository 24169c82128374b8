/** Talk to an agent, and see what it does. The address holds the session. */
import { get, write } from "../api/client.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../app/html.js";
import { go, hrefOf } from "../app/router.js";
import { agoText } from "../model/format.js";
import { Composer } from "../parts/chat/composer.js";
import { ChatTurn } from "../parts/chat/turn.js";
import { useAttachments } from "../parts/chat/use_attachments.js";
import { useConversation } from "../parts/chat/use_conversation.js";
import { Icon } from "../parts/icon.js";
import { useDrop } from "../parts/use_drop.js";

// What a new session is to be told at once; it belongs to no address.
let pending = null;

export function Chat({ segments, query }) {
  const [sessionId = null] = segments;
  const { agents, sessions, problem, refresh } = useLists();
  return html`
    <div class="page chat">
      <${Sessions} sessions=${sessions} current=${sessionId} onOpen=${refresh} />
      <${Talk} key=${sessionId ?? "new"} sessionId=${sessionId} agents=${agents} wanted=${query.get("agent")} problem=${problem} onMade=${refresh} />
    </div>`;
}

function Talk({ sessionId, agents, wanted, problem, onMade }) {
  const conversation = useConversation(sessionId);
  const details = useSession(sessionId);
  const [agent, setAgent] = useState(wanted ?? "");
  const [failed, setFailed] = useState("");
  const made = useRef(null);
  const chosen = sessionId ? (details?.agent_id ?? "") : agent || agents?.[0]?.id || "";
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
  const attachments = useAttachments(sessionOf);
  const say = guarded(async (text, files) => {
    setFailed("");
    if (sessionId) return conversation.say(text, files);
    const id = await sessionOf();
    pending = { id, text, files };
    onMade();
    return go(`chat/${id}/`, {}, { replace: true });
  });
  useEffect(() => {
    if (!pending || pending.id !== sessionId || conversation.state === "loading") return;
    const { text, files } = pending;
    pending = null;
    conversation.say(text, files);
  }, [sessionId, conversation.state]);
  const again = guarded(async (turn) => {
    const id = await sessionBefore(conversation, turn, details.agent_config);
    pending = { id, text: turn.content, files: [] };
    onMade();
    go(`chat/${id}/`);
  });
  const running = conversation.turns.find(({ hasEnded, id }) => !hasEnded && id);
  const [over, drop] = useDrop((files) => attachments.add(files));
  return html`
    <section class=${over ? "talk dropping" : "talk"} aria-label="Chat" ...${drop}>
      <header class="talk-head">
        <h1 tabindex="-1">Chat</h1>
        <${AgentChoice} agents=${agents} chosen=${chosen} session=${details} onChoose=${(id) => (sessionId ? go("chat/", { agent: id }) : setAgent(id))} />
        ${sessionId && html`<a class="button" href=${hrefOf("timeline/", { session_id: sessionId })}><${Icon} name="timeline" />Timeline</a>`}
        <a class="button" href=${hrefOf("chat/")}><${Icon} name="plus" />New chat</a>
      </header>
      <${Log} conversation=${conversation} sessionId=${sessionId} onAgain=${again} />
      ${(failed || problem) && html`<p class="problem" role="alert">${failed || problem}</p>`}
      <${Composer}
        disabled=${!sessionId && !chosen} running=${running} attachments=${attachments} onSend=${say}
        onStop=${guarded(() => conversation.stop(running))}
      />
      <p class="drop-hint" aria-hidden="true">Drop files to attach them</p>
    </section>`;
}

/** A session with the history before a turn, which stays where it is. */
async function sessionBefore(conversation, turn, config) {
  if (conversation.turns[0] === turn && conversation.earlier > 0) await conversation.loadEarlier();
  const before = conversation.turns.slice(0, conversation.turns.indexOf(turn)).findLast(({ status }) => status === "completed");
  const made = before
    ? await write("POST", `/sessions/${conversation.sessionId}/fork/`, { up_to_turn_id: before.id })
    : await write("POST", "/sessions/", config);
  return made.session_id;
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

function Log({ conversation, sessionId, onAgain }) {
  const box = useRef();
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  });
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    atEnd.current = scrollTop + clientHeight > scrollHeight - 40;
  };
  const { turns, state, problem, earlier } = conversation;
  return html`
    <div class="log" role="log" aria-label="Conversation" tabindex="0" ref=${box} onScroll=${scrolled}>
      ${earlier > 0 && html`<p class="empty"><button class="button" onClick=${() => conversation.loadEarlier()}>Show ${earlier} earlier messages</button></p>`}
      ${state === "loading" && html`<p class="empty">Reading the conversation…</p>`}
      ${state === "failed" && html`<p class="problem" role="alert">${problem}</p>`}
      ${state === "ready" && turns.length === 0 && html`<p class="empty">Nothing has been said yet.</p>`}
      ${turns.map((turn, at) => html`
        <${ChatTurn} key=${at} turn=${turn} sessionId=${sessionId} onAgain=${onAgain}
          onResolve=${(...answer) => conversation.resolve(...answer)} />`)}
    </div>`;
}

function Sessions({ sessions, current, onOpen }) {
  return html`
    <aside class="sessions" aria-label="Sessions">
      <h2>Sessions</h2>
      <ul>
        ${(sessions ?? []).map((each) => html`
          <li key=${each.session_id}>
            <a href=${hrefOf(`chat/${each.session_id}/`)} aria-current=${each.session_id === current ? "page" : undefined} onClick=${onOpen}>
              <b>${each.agent_config?.name ?? "Agent"}</b><small>${agoText(each.created_at)}</small>
            </a>
          </li>`)}
      </ul>
    </aside>`;
}

function useLists() {
  const [lists, setLists] = useState({ agents: null, sessions: null, problem: "" });
  const refresh = () =>
    Promise.all([get("/agent/"), get("/sessions/", { limit: 30 })])
      .then(([agents, { sessions }]) => setLists({ agents, sessions, problem: agents.length ? "" : "There is no agent yet to talk to." }))
      .catch((problem) => setLists((lists) => ({ ...lists, problem: problem.message })));
  useEffect(() => {
    refresh();
  }, []);
  return { ...lists, refresh };
}

function useSession(id) {
  const [details, setDetails] = useState(null);
  useEffect(() => {
    if (id) get(`/sessions/${id}/`).then(setDetails, () => setDetails(null));
  }, [id]);
  return details;
}
