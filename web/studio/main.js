/** The studio's entry point: shows the sign-in form, or the frame with its pages. */
import { resume, session, waitingStreams } from "../api/client.js";
import { html, render } from "../html.js";
import { useStore } from "../store.js";
import { Frame } from "./parts/frame.js";
import { lazy } from "./parts/hooks.js";
import { interceptLinks } from "./router.js";

const SignIn = lazy(() => import("./pages/sign_in.js").then((module) => module.SignIn));

function Studio() {
  const { state, me } = useStore(session);
  if (state === "in") return html`<${Frame} me=${me} />`;
  if (state === "resuming") return html`<${Resuming} />`;
  return html`<${SignIn} />`;
}

function Resuming() {
  const waits = useStore(waitingStreams).size > 0;
  return html`<p class="starting" role="status">${waits ? "Couldn't reach the service. Retrying…" : "Signing in…"}</p>`;
}

interceptLinks(document);
// A sign-in link that is opened in the studio's own tab only changes the fragment.
addEventListener("hashchange", resume);
resume();
document.getElementById("studio").replaceChildren();
render(html`<${Studio} />`, document.getElementById("studio"));
