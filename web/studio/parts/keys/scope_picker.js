/** Scopes to choose among, by the area that they are of. */
import { html } from "../../../html.js";

export function ScopePicker({ offered, chosen, onChange }) {
  const areas = Map.groupBy(offered, (scope) => scope.split(":")[0]);
  const toggle = (scope) => onChange(chosen.includes(scope) ? chosen.filter((each) => each !== scope) : [...chosen, scope]);
  return html`
    <fieldset>
      <legend>Scopes</legend>
      <p class="scope-picks">
        <button type="button" class="button small" onClick=${() => onChange(offered)}>All</button>
        <button type="button" class="button small" onClick=${() => onChange(offered.filter((scope) => scope.endsWith(":read")))}>Only reading</button>
        <button type="button" class="button small" onClick=${() => onChange([])}>None</button>
        <span class="muted">${chosen.length} of ${offered.length}</span>
      </p>
      <div class="scope-areas">
        ${[...areas].map(([area, scopes]) => html`
          <div key=${area}>
            ${scopes.map((scope) => html`
              <label key=${scope} class="check"><input type="checkbox" checked=${chosen.includes(scope)} onChange=${() => toggle(scope)} /><code>${scope}</code></label>`)}
          </div>`)}
      </div>
    </fieldset>`;
}
