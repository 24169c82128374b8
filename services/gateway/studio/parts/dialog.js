/** A dialog over the page; `Escape` and a click beside it close it, and focus goes back to where it was. */
import { html, useEffect, useRef } from "../app/html.js";
import { Icon } from "./icon.js";

export function Dialog({ title, onClose, children }) {
  const box = useRef();
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  const beside = (event) => event.target === box.current && onClose();
  return html`
    <dialog class="dialog" ref=${box} aria-label=${title} onClose=${onClose} onClick=${beside}>
      <div class="dialog-head">
        <h2>${title}</h2>
        <button class="button small" onClick=${onClose}><${Icon} name="close" />Close</button>
      </div>
      <div class="dialog-body">${children}</div>
    </dialog>`;
}
