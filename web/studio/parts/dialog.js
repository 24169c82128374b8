/** A dialog over the page; `Escape` and a click beside it close it, and focus goes back to where it was. */
import { html, useEffect, useRef } from "../../html.js";
import { Icon } from "./icon.js";

/** `sticky`: it is closed by its own buttons only. `wide`: for what needs room. */
export function Dialog({ title, onClose, sticky = false, wide = false, children }) {
  const box = useRef();
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    // By itself a dialog begins at its first button, which closes it.
    if (!box.current.querySelector("[autofocus]")) box.current.querySelector(".dialog-body :is(input, select, textarea)")?.focus();
    return () => before?.focus?.();
  }, []);
  const beside = (event) => !sticky && event.target === box.current && onClose();
  const cancel = (event) => sticky && event.target === box.current && event.preventDefault();
  const closed = (event) => {
    if (event.target !== box.current) return;
    // A browser closes it at the second Escape whatever the page says.
    if (sticky) box.current.showModal();
    else onClose();
  };
  return html`
    <dialog class=${wide ? "dialog wide" : "dialog"} ref=${box} aria-label=${title} onCancel=${cancel} onClose=${closed} onClick=${beside}>
      <div class="dialog-head">
        <h2>${title}</h2>
        ${!sticky && html`<button class="button small" onClick=${onClose}><${Icon} name="close" />Close</button>`}
      </div>
      <div class="dialog-body">${children}</div>
    </dialog>`;
}
