/** What every page stands in: navigation, who is signed in, the state of the connection. */
import { waitingStreams } from "../api/network.js";
import { session, signOut } from "../api/session.js";
import { html, useEffect, useRef, useState } from "../app/html.js";
import { PAGES, pageAt } from "../app/pages.js";
import { address, BASE, hrefOf, segmentsOf } from "../app/router.js";
import { useStore } from "../app/store.js";
import { Account } from "./account.js";
import { Boundary } from "./boundary.js";
import { Icon } from "./icon.js";

export function Frame({ me }) {
  const { path, query } = useStore(address);
  const segments = segmentsOf(path);
  const found = pageAt(segments);
  const [open, setOpen] = useState(false);
  const main = useRef();
  useEffect(() => setOpen(false), [path]);
  useTitle(found?.label ?? "Not found");
  useFocusOnHeading(main, segments[0] ?? "");
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
          ${found ? html`<${found.page} segments=${segments.slice(1)} query=${query} />` : html`<${NotFound} />`}
        <//>
      </main>
    </div>`;
}

function Navigation({ open, scopes, current }) {
  const shown = PAGES.filter(({ scope }) => !scope || [scope].flat().some((each) => scopes.includes(each)));
  return html`
    <nav id="navigation" class=${open ? "navigation open" : "navigation"} aria-label="Pages">
      <ul>
        ${shown.map(
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

function NotFound() {
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

/** After going to another page, keyboards and screen readers begin at its heading. */
function useFocusOnHeading(main, page) {
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) main.current?.querySelector("h1")?.focus({ preventScroll: true });
    first.current = false;
  }, [page]);
}

function skipTo(event, target) {
  event.preventDefault();
  target?.focus();
}
