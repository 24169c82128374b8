/** The frame around every page: navigation, account, connection status. */
import { Component } from "preact";
import { session, signOut, waitingStreams } from "../../api/client.js";
import { sleep } from "../../api/requests.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { countText, momentText } from "../../model/format.js";
import { useStore } from "../../store.js";
import { componentOf, fetchPage, pageAt, pagesFor } from "../pages.js";
import { address, BASE, hrefOf, segmentsOf } from "../router.js";
import { Icon } from "./views.js";

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

/** Announces that streams are reconnecting, politely, so that screen readers don't interrupt anyone. */
function Connection() {
  const waiting = useStore(waitingStreams).size > 0;
  const offline = html`<span class="dot warning" aria-hidden="true"></span> Reconnecting… no data will be lost.`;
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
      <p role="alert">This page requires a key with the scope <code>${first}</code>${others.map((each) => html` or <code>${each}</code>`)}. Yours doesn't have it.</p>
      <p><a href=${BASE}>Go to the overview</a>, or sign out and use another key.</p>
    </div>`;
}

function NotFound() {
  useFocusOnHeading(true);
  return html`
    <div class="page">
      <h1 tabindex="-1">Page not found</h1>
      <p>There's no page at this address. <a href=${BASE}>Go to the overview</a></p>
    </div>`;
}

function useTitle(label) {
  const { me } = useStore(session);
  useEffect(() => {
    document.title = `${label} · ${me?.company_name ?? "Studio"}`;
  }, [label, me]);
}

/** A page whose modules may still be loading. */
function Opened({ page, ...given }) {
  const [component, setComponent] = useState(() => componentOf(page));
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    if (!component) fetchPage(page).then((fetched) => setComponent(() => fetched), setProblem);
  }, []);
  useFocusOnHeading(component);
  if (problem) throw new Error("Couldn't load the page. The studio may have been updated.", { cause: problem });
  return component ? html`<${component} ...${given} />` : html`<p class="starting" role="status">Loading the page…</p>`;
}

/** Preloads the other pages one by one, so that they open instantly. */
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
    // A page that failed to load reports it when it's opened. Browsers don't retry a module before a reload, so stop
    // preloading.
    if (!navigator.connection?.saveData) fetchAll().catch(() => null);
    return () => stop.abort();
  }, []);
}

let isFirst = true;

/** After navigation, moves the focus to the heading once it's `there`, for users of keyboards and screen readers. */
function useFocusOnHeading(there) {
  useEffect(() => {
    if (!there) return;
    if (!isFirst) document.querySelector("main h1")?.focus({ preventScroll: true });
    isFirst = false;
  }, [there]);
}

/** Moves the focus after navigation within a page, where the focused element may have disappeared. */
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

const THEMES = ["system", "light", "dark"];

/** Shows the signed-in user, scopes and limits, and the choice of theme. */
export function Account({ me }) {
  const box = useClosing();
  return html`
    <details class="account" ref=${box}>
      <summary>
        <span class="avatar" aria-hidden="true">${me.user_name.slice(0, 1).toUpperCase()}</span>
        <span class="who"><b>${me.user_name}</b><small>${me.company_name}</small></span>
      </summary>
      <div class="account-panel">
        <dl class="facts">
          <dt>Company</dt><dd>${me.company_name}</dd>
          <dt>Limit</dt><dd>${me.rate_limit ? `${countText(me.rate_limit, "request")} per minute` : "none"}</dd>
          <dt>Key expires</dt><dd>${me.expires_at ? momentText(me.expires_at) : "never"}</dd>
          <dt>Scopes</dt><dd class="scopes">${me.scopes.map((scope) => html`<code key=${scope}>${scope}</code> `)}</dd>
        </dl>
        <${Theme} />
      </div>
    </details>`;
}

/** A panel over the page, which closes on `Escape`, on a click outside of it, or on navigation. */
function useClosing() {
  const box = useRef();
  const { path } = useStore(address);
  const close = () => (box.current.open = false);
  useEffect(() => {
    close();
  }, [path]);
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    addEventListener("pointerdown", ({ target }) => box.current.contains(target) || close(), { signal });
    box.current.addEventListener(
      "keydown",
      ({ key }) => {
        if (key !== "Escape" || !box.current.open) return;
        close();
        box.current.querySelector("summary").focus();
      },
      { signal },
    );
    return () => stop.abort();
  }, []);
  return box;
}

function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem("aes.studio.theme") ?? "system");
  const choose = (next) => {
    setTheme(next);
    if (next === "system") {
      localStorage.removeItem("aes.studio.theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("aes.studio.theme", next);
      document.documentElement.dataset.theme = next;
    }
  };
  return html`
    <fieldset class="choice">
      <legend>Theme</legend>
      ${THEMES.map(
        (each) => html`
          <label key=${each}>
            <input type="radio" name="theme" value=${each} checked=${theme === each} onChange=${() => choose(each)} />
            <span>${each}</span>
          </label>`,
      )}
    </fieldset>`;
}

/** Keeps the frame when a page throws, and shows the error. */
class Boundary extends Component {
  constructor() {
    super();
    this.state = { problem: null };
  }

  componentDidCatch(problem) {
    console.error(problem);
    this.setState({ problem });
  }

  render({ children }, { problem }) {
    if (!problem) return children;
    return html`
      <div class="page" role="alert">
        <h1>Something went wrong</h1>
        <p>${String(problem.message ?? problem)}</p>
        <p><button class="button" onClick=${() => location.reload()}>Reload</button></p>
      </div>`;
  }
}
