/** The lines that put a chat into a page. */
import { html } from "../../../html.js";
import { CopyButton } from "../copy_button.js";

export function snippetOf(connectionKey, origin = location.origin) {
  return `<script src="${origin}/widget.js" data-connection-key="${connectionKey}"></script>`;
}

export function Snippet({ connectionKey }) {
  const text = snippetOf(connectionKey);
  return html`
    <div class="snippet">
      <pre class="json" tabindex="0" role="region" aria-label="Widget snippet">${text}</pre>
      <p class="form-actions"><${CopyButton} text=${text} label="Copy snippet" /></p>
    </div>`;
}
