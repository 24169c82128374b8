/** The pages: where each is, what the navigation calls it, and the scope that it needs, or one of several. */
import { Agents } from "../pages/agents.js";
import { Chat } from "../pages/chat.js";
import { Connections } from "../pages/connections.js";
import { Files } from "../pages/files.js";
import { Keys } from "../pages/keys.js";
import { Knowledge } from "../pages/knowledge.js";
import { Operators } from "../pages/operators.js";
import { Overview } from "../pages/overview.js";
import { Secrets } from "../pages/secrets.js";
import { Timeline } from "../pages/timeline.js";
import { Toolsets } from "../pages/toolsets.js";
import { Usage } from "../pages/usage.js";
import { Webhooks } from "../pages/webhooks.js";

export const PAGES = [
  { path: "", label: "Overview", icon: "overview", page: Overview, scope: null },
  { path: "agents/", label: "Agents", icon: "agents", page: Agents, scope: "agents:read" },
  { path: "chat/", label: "Chat", icon: "chat", page: Chat, scope: "runtime:execute" },
  { path: "timeline/", label: "Timeline", icon: "timeline", page: Timeline, scope: "events:read" },
  { path: "knowledge/", label: "Knowledge", icon: "knowledge", page: Knowledge, scope: "knowledge:read" },
  { path: "files/", label: "Files", icon: "files", page: Files, scope: "files:read" },
  { path: "toolsets/", label: "Toolsets", icon: "tool", page: Toolsets, scope: "toolsets:read" },
  { path: "usage/", label: "Usage", icon: "usage", page: Usage, scope: "usage:read" },
  { path: "keys/", label: "Keys", icon: "keys", page: Keys, scope: "keys:read" },
  { path: "connections/", label: "Connections", icon: "connections", page: Connections, scope: "keys:read" },
  { path: "webhooks/", label: "Webhooks", icon: "webhooks", page: Webhooks, scope: "webhooks:read" },
  { path: "secrets/", label: "Secrets", icon: "secrets", page: Secrets, scope: "toolsets:read" },
  { path: "operators/", label: "Operators", icon: "operators", page: Operators, scope: ["installation:read", "company:read", "company:write"] },
];

export function pageAt(segments) {
  const [first = ""] = segments;
  return PAGES.find(({ path }) => path.replace("/", "") === first) ?? null;
}
