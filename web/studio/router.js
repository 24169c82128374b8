/** Maps addresses below `/studio/` to pages, and navigates without a reload. */
import { Store } from "../store.js";

export const BASE = "/studio/";

function here() {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

export const address = new Store(here());

addEventListener("popstate", () => address.set(here()));

/** Returns the address of a path relative to the studio, such as `timeline/` or `chat/<id>/`. */
export function hrefOf(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  return BASE + path + (text ? `?${text}` : "");
}

export function go(path, query = {}, { replace = false } = {}) {
  const href = hrefOf(path, query);
  if (href === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", href);
  address.set(here());
}

/** Handles plain clicks on links within the studio. Leaves others, such as those for a new tab, to the browser. */
export function interceptLinks(root) {
  root.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(BASE) || link.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    go(url.pathname.slice(BASE.length), Object.fromEntries(url.searchParams));
  });
}

/** Splits a path into the page's name and the rest: `chat/1/` becomes `["chat", "1"]`. */
export function segmentsOf(path) {
  return path.slice(BASE.length).split("/").filter(Boolean).map(decoded);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
