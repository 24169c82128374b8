/** The studio's beginning: who is signed in decides between the sign-in form and the frame with its pages. */
import { resume, session } from "../api/session.js";
import { Frame } from "../parts/frame.js";
import { SignIn } from "../pages/sign_in.js";
import { html, render } from "./html.js";
import { interceptLinks } from "./router.js";
import { useStore } from "./store.js";

function Studio() {
  const { state, me } = useStore(session);
  if (state === "in") return html`<${Frame} me=${me} />`;
  return html`<${SignIn} />`;
}

interceptLinks(document);
// A sign-in link that is opened in the studio's own tab changes nothing but the fragment.
addEventListener("hashchange", resume);
resume().finally(() => render(html`<${Studio} />`, document.getElementById("studio")));
