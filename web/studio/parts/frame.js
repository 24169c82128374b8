/** What every page stands in: navigation, who is signed in, the state of the connection. */
import { waitingStreams } from "../../api/network.js";
import { session, signOut } from "../../api/session.js";
import { sleep } from "../../api/sleep.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { componentOf, fetchPage, pageAt, pagesFor } from "../pages.js";
import { address, BASE, hrefOf, segmentsOf } from "../router.js";
import { useStore } from "../../store.js";
import { Account } from "./account.js";
import { Boundary } from "./boundary.js";
import { Icon } from "./icon.js";

const OTHER_PAGES_MS = 1_000;

export function Frame({ me }) {
  const { path, query } = useStore(address);
  const segments = segmentsOf(path);
  const found = pageAt(segments);
  const [open, setOpen] = useState(false);
  const main = useRef();
  useEffect(() => setOpen(false), [path]);
  useFocusOnPath(path);
  useTitle(found?.label ?? "Not found");
  useOtherPages(found, me.scopes);
  return html`
    <a class="skip" href="#main" onClick=${(event) => skipTo(event, main.current)}>Skip to content</a>
    <div class="frame">
      <header class="topbar">
        <a class="brand" href=${BASE}><${Icon} name="logo" />Studio</a>
        <button class="menu-button" aria-expanded=${open} aria-controls="navigation" onClick=${() => setOpen(!open)}>
          <${Icon} name="menu" />Menu
        </button>
        <${Navigation} open=${open} scopes=${me.scopes} current=${found?.path} />
        <${Account} me=${me} />
        <button class="button small sign-out" onClick=${() => signOut()}>Sign out</button>
      </header>
      <main id="main" tabindex="-1" ref=${main}>
        <${Connection} />
        <${Boundary} key=${segments[0] ?? ""}>
          <${Page} found=${found} scopes=${me.scopes} segments=${segments.slice(1)} query=${query} />
        <//>
      </main>
    </div>`;
}

function Navigation({ open, scopes, current }) {
  return html`
    <nav id="navigation" class=${open ? "navigation open" : "navigation"} aria-label="Pages">
      <ul>
        ${pagesFor(scopes).map(
          ({ path, label, icon }) => html`
            <li key=${path}>
              <a href=${hrefOf(path)} aria-current=${current === path ? "page" : undefined}>
                <${Icon} name=${icon} />${label}
              </a>
            </li>`,
        )}
      </ul>
    </nav>`;
}

/** Says that streams wait for the service; on its own the word is not enough to interrupt anybody. */
function Connection() {
  const waiting = useStore(waitingStreams).size > 0;
  const offline = html`<span class="dot warning" aria-hidden="true"></span> Connection lost. Trying again; nothing is missed.`;
  return html`<p class="connection" role="status" hidden=${!waiting}>${waiting ? offline : ""}</p>`;
}

function Page({ found, scopes, ...given }) {
  if (!found) return html`<${NotFound} />`;
  return pagesFor(scopes).includes(found) ? html`<${Opened} page=${found} ...${given} />` : html`<${NotAllowed} page=${found} />`;
}

function NotAllowed({ page: { label, scope } }) {
  useFocusOnHeading(true);
  const [first, ...others] = [scope].flat();
  return html`
    <div class="page">
      <h1 tabindex="-1">${label}</h1>
      <p role="alert">This page needs a key with the scope <code>${first}</code>${others.map((each) => html` or <code>${each}</code>`)}, which yours does not have.</p>
      <p><a href=${BASE}>Go to the overview</a>, or sign out and in with another key.</p>
    </div>`;
}

function NotFound() {
  useFocusOnHeading(true);
  return html`
    <div class="page">
      <h1 tabindex="-1">There is nothing here</h1>
      <p>The address names no page of the studio. <a href=${BASE}>Go to the overview</a></p>
    </div>`;
}

function useTitle(label) {
  const { me } = useStore(session);
  useEffect(() => {
    document.title = `${label} · ${me?.company_name ?? "Studio"}`;
  }, [label, me]);
}

/** A page of which the modules may still be on their way. */
function Opened({ page, ...given }) {
  const [component, setComponent] = useState(() => componentOf(page));
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    if (!component) fetchPage(page).then((fetched) => setComponent(() => fetched), setProblem);
  }, []);
  useFocusOnHeading(component);
  if (problem) throw new Error("It could not be loaded; the studio may have been updated meanwhile.", { cause: problem });
  return component ? html`<${component} ...${given} />` : html`<p class="starting" role="status">Loading the page…</p>`;
}

/** Fetches the other pages one after another when the first one is here, so that they open at once. */
function useOtherPages(first, scopes) {
  useEffect(() => {
    const stop = new AbortController();
    const fetchAll = async () => {
      for (const page of [first, ...pagesFor(scopes)].filter(Boolean)) {
        await fetchPage(page);
        await sleep(OTHER_PAGES_MS, stop.signal);
        if (stop.signal.aborted) return;
      }
    };
    // A page that could not be fetched says so when it is opened. Until a reload browsers do not ask for it again: the
    // rest is left alone.
    if (!navigator.connection?.saveData) fetchAll().catch(() => null);
    return () => stop.abort();
  }, []);
}

let isFirst = true;

/** After going to another page, keyboards and screen readers begin at its heading, as soon as it is `there`. */
function useFocusOnHeading(there) {
  useEffect(() => {
    if (!there) return;
    if (!isFirst) document.querySelector("main h1")?.focus({ preventScroll: true });
    isFirst = false;
  }, [there]);
}

/** Within a page, too: what had the focus may be gone with what was shown. */
function useFocusOnPath(path) {
  const before = useRef(path);
  useEffect(() => {
    if (before.current !== path && document.activeElement === document.body) document.querySelector("main h1")?.focus({ preventScroll: true });
    before.current = path;
  }, [path]);
}

function skipTo(event, target) {
  event.preventDefault();
  target?.focus();
}
