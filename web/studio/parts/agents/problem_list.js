/** What is wrong with a configuration, where, and how to mend it. */
import { html } from "../../../html.js";

export function ProblemList({ problems, label, onLine }) {
  if (!problems.length) return null;
  return html`
    <ul class=${`problem-list ${label.toLowerCase()}`} aria-label=${label}>
      ${problems.map(({ line, field, message, hint }, at) => html`
        <li key=${at}>
          ${line && html`<button type="button" class="link" onClick=${() => onLine(line)}>line ${line}</button>`}
          ${field && html`<code>${field}</code>`}
          <span>${message}</span>
          ${hint && html`<em>${hint}</em>`}
        </li>`)}
    </ul>`;
}
