/** Versions of an agent, which never change, and what differs between one of them and what is written now. */
import { get } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { lineDiff } from "../../../model/diff.js";
import { momentText } from "../../../model/format.js";
import { toYaml } from "../../../model/yaml.js";
import { Problem } from "../problem.js";
import { useLoaded } from "../use_loaded.js";

export function Versions({ agent, text }) {
  const { value: page, problem } = useLoaded((signal) => get(`/agent/${agent.id}/versions/`, { limit: 200 }, { signal }), `${agent.id} ${agent.version_number}`);
  const [open, setOpen] = useState(null);
  const versions = page?.versions ?? [];
  const shown = versions.find(({ version_number: number }) => number === open);
  return html`
    <section class="card versions" aria-labelledby="versions">
      <h2 id="versions">Versions</h2>
      <${Problem} of=${problem} />
      <ul>
        ${versions.map((version) => html`
          <li key=${version.version_number}>
            <button class="button small" aria-expanded=${open === version.version_number} onClick=${() => setOpen(open === version.version_number ? null : version.version_number)}>
              ${version.version_number}
            </button>
            <small class="muted">${momentText(version.created_at)}</small>
          </li>`)}
      </ul>
      ${shown && html`<${Difference} before=${toYaml(shown.system_config)} after=${text} name=${shown.version_number} />`}
    </section>`;
}

function Difference({ before, after, name }) {
  const lines = lineDiff(before.trimEnd(), after.trimEnd());
  const same = lines.every(([kind]) => kind === " ");
  return html`
    <h3>From ${name} to what is written now</h3>
    ${same ? html`<p class="muted">They are the same.</p>` : html`
      <pre class="json diff" tabindex="0" role="region" aria-label="Difference">${lines.map(([kind, line], at) => html`
        <span key=${at} class=${kind === "+" ? "added" : kind === "-" ? "taken" : ""}>${`${kind} ${line}`}</span>`)}</pre>`}`;
}
