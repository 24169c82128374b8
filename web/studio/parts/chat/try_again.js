/** Asks which version of the agent to retry a message with, if the agent has changed since the conversation began. */
import { get, write } from "../../../api/client.js";
import { html } from "../../../html.js";
import { Dialog } from "../forms.js";
import { useAction } from "../hooks.js";
import { Problem } from "../views.js";

const PAGE = 200;

/** The dialog. `onFork` retries with the original version, and `onMade(id)` in a new session with the newest. */
export function TryAgain({ turn, sessionId, agent, onFork, onMade, onClose }) {
  const newest = useAction(async () => {
    const messages = await historyBefore(turn, sessionId);
    const { session_id: id } = await write("POST", "/sessions/", { agent_id: agent.id, ...(messages.length ? { messages } : {}) });
    onMade(id);
  });
  const hasFiles = turn.attachments.length > 0;
  return html`
    <${Dialog} title="The agent has changed" onClose=${onClose}>
      <p>${agent.name} has changed since this conversation began. Its newest version is ${agent.version_number}.</p>
      ${hasFiles && html`<p class="muted">A message with files can only be retried with this conversation's version.</p>`}
      <${Problem} of=${newest.problem} />
      <div class="dialog-actions">
        <button class="button" disabled=${newest.busy} onClick=${onFork}>This conversation's version</button>
        <button class="button primary" autofocus disabled=${newest.busy || hasFiles} onClick=${newest.run}>Newest version</button>
      </div>
    <//>`;
}

/** Resolves to the messages of earlier turns with a reply, for use as a new session's initial messages. */
async function historyBefore(turn, sessionId) {
  const said = [];
  for (let offset = 0, total = 1; offset < total; offset += PAGE) {
    const page = await get(`/runtime/${sessionId}/messages/`, { offset, limit: PAGE });
    const end = page.messages.findIndex(({ turn_id: id }) => id === turn.id);
    said.push(...(end < 0 ? page.messages : page.messages.slice(0, end)));
    if (end >= 0) break;
    total = page.total;
  }
  const answered = new Set(said.filter(({ role }) => role === "assistant").map(({ turn_id: id }) => id));
  return said.filter(({ turn_id: id }) => !id || answered.has(id)).map(given);
}

function given({ role, content, content_blocks: blocks = [] }) {
  if (role === "tool") return { role, content, tool_call_id: blocks[0].call_id };
  const calls = blocks.filter(({ type }) => type === "tool_call").map(({ id, name, arguments: values }) => ({ id, name, arguments: values }));
  if (calls.length) return { role, content, tool_calls: calls };
  const kept = role === "user" ? blocks.filter(({ type }) => type === "text" || type === "image_url") : [];
  return { role, content: kept.some(({ type }) => type === "image_url") ? kept : content || "…" };
}
