/** The pages: where each is, what the navigation calls it, and the scope that it needs. */
import { Agents } from "../pages/agents.js";
import { Chat } from "../pages/chat.js";
import { Overview } from "../pages/overview.js";
import { Timeline } from "../pages/timeline.js";

export const PAGES = [
  { path: "", label: "Overview", icon: "overview", page: Overview, scope: null },
  { path: "agents/", label: "Agents", icon: "agents", page: Agents, scope: "agents:read" },
  { path: "chat/", label: "Chat", icon: "chat", page: Chat, scope: "runtime:execute" },
  { path: "timeline/", label: "Timeline", icon: "timeline", page: Timeline, scope: "events:read" },
];

export function pageAt(segments) {
  const [first = ""] = segments;
  return PAGES.find(({ path }) => path.replace("/", "") === first) ?? null;
}
