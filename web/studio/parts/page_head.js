/** The heading of a page, the way back, and what can be done there. */
import { html } from "../../html.js";
import { hrefOf } from "../router.js";

export function PageHead({ title, back, aside, children }) {
  return html`
    ${back && html`<p class="back"><a href=${hrefOf(back.path)}>${back.label}</a></p>`}
    <div class="page-head">
      <h1 tabindex="-1">${title}</h1>
      ${aside}
      <span class="spacer"></span>
      ${children}
    </div>`;
}
