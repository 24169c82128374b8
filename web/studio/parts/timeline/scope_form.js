/** Whose events: those of a request, a session, a turn; those of a type; or all of the company. */
import { html, useEffect, useState } from "../../../html.js";
import { go } from "../../router.js";

const FIELDS = [
  { name: "correlation_id", label: "Correlation id", placeholder: "of one request" },
  { name: "session_id", label: "Session id", placeholder: "any" },
  { name: "turn_id", label: "Turn id", placeholder: "any" },
  { name: "type", label: "Type", placeholder: "turn.*, artifact.failed" },
];

export function ScopeForm({ scope }) {
  const [values, setValues] = useState(scope);
  useEffect(() => setValues(scope), [JSON.stringify(scope)]);
  const submit = (event) => {
    event.preventDefault();
    const given = Object.entries(values).map(([name, value]) => [name, value.trim()]);
    go("timeline/", Object.fromEntries(given));
  };
  return html`
    <form class="scope-form" role="search" onSubmit=${submit}>
      ${FIELDS.map(({ name, label, placeholder }) => html`
        <div key=${name} class=${name}>
          <label for=${`scope-${name}`}>${label}</label>
          <input id=${`scope-${name}`} value=${values[name] ?? ""} placeholder=${placeholder} spellcheck="false" autocomplete="off"
            onInput=${(event) => setValues({ ...values, [name]: event.target.value })} />
        </div>`)}
      <button class="button primary">Show</button>
      <button class="button" type="button" hidden=${Object.keys(scope).length === 0} onClick=${() => go("timeline/")}>All events</button>
    </form>`;
}
