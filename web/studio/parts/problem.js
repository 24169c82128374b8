/** A refusal in the service's words, with the places that no field shows. */
import { html } from "../../html.js";

/** `shown`: the names of fields that tell their own problems. */
export function Problem({ of: problem, shown = [] }) {
  const details = problem?.details?.filter(({ loc }) => !shown.includes(String(loc[0]))) ?? [];
  const elsewhere = problem?.details?.length > 0 && details.length === 0;
  return html`
    <div role="alert">
      ${problem && html`
        <div class="problem">
          ${elsewhere ? "Something is not valid, see above." : problem.message}
          ${details.length > 0 && html`
            <ul>${details.map(({ loc, message, hint }, at) => html`
              <li key=${at}>${loc.length > 0 && html`<code>${loc.join(".")}</code> `}${message}${hint && html` <em>${hint}</em>`}</li>`)}</ul>`}
        </div>`}
    </div>`;
}
