/** The pages: path, navigation label, module, and scopes. A key needs one of the scopes. */

export const PAGES = [
  { path: "", label: "Overview", icon: "overview", load: () => import("./pages/overview.js"), scope: null },
  { path: "agents/", label: "Agents", icon: "agents", load: () => import("./pages/agents.js"), scope: "agents:read" },
  { path: "chat/", label: "Chat", icon: "chat", load: () => import("./pages/chat.js"), scope: ["runtime:execute", "sessions:read"] },
  { path: "timeline/", label: "Timeline", icon: "timeline", load: () => import("./pages/timeline.js"), scope: "events:read" },
  { path: "knowledge/", label: "Knowledge", icon: "knowledge", load: () => import("./pages/knowledge.js"), scope: "knowledge:read" },
  { path: "files/", label: "Files", icon: "files", load: () => import("./pages/files.js"), scope: "files:read" },
  { path: "toolsets/", label: "Toolsets", icon: "tool", load: () => import("./pages/toolsets.js"), scope: "toolsets:read" },
  { path: "usage/", label: "Usage", icon: "usage", load: () => import("./pages/usage.js"), scope: "usage:read" },
  { path: "keys/", label: "Keys", icon: "keys", load: () => import("./pages/keys.js"), scope: "keys:read" },
  { path: "connections/", label: "Connections", icon: "connections", load: () => import("./pages/connections.js"), scope: "keys:read" },
  { path: "webhooks/", label: "Webhooks", icon: "webhooks", load: () => import("./pages/webhooks.js"), scope: "webhooks:read" },
  { path: "secrets/", label: "Secrets", icon: "secrets", load: () => import("./pages/secrets.js"), scope: "toolsets:read" },
  { path: "operators/", label: "Operators", icon: "operators", load: () => import("./pages/operators.js"), scope: ["installation:read", "company:read", "company:write"] },
];

const loaded = new Map();

/** Returns a page's component, or undefined until its modules are loaded. */
export function componentOf(page) {
  return loaded.get(page);
}

/** Loads a page's modules on demand. Resolves to its component. */
export async function fetchPage(page) {
  if (!loaded.has(page)) loaded.set(page, (await page.load()).default);
  return loaded.get(page);
}

export function pagesFor(scopes) {
  return PAGES.filter(({ scope }) => !scope || [scope].flat().some((each) => scopes.includes(each)));
}

export function pageAt(segments) {
  const [first = ""] = segments;
  return PAGES.find(({ path }) => path.replace("/", "") === first) ?? null;
}
