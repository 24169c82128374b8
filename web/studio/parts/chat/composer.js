/** Where messages are written: text, files by button, drop or paste; Enter sends. */
import { html, useEffect, useLayoutEffect, useRef } from "../../../html.js";
import { Icon } from "../icon.js";
import { useDraft } from "../use_draft.js";

let isFocusKept = false;

/** Has the next composer focused where this one is: the first message of a chat leads to its session. */
export function keepFocus() {
  isFocusKept = document.activeElement?.closest(".composer") !== null;
}

/** `draft` names what is written here. */
export function Composer({ draft, disabled, running, attachments, onSend, onStop }) {
  const [text, setText] = useDraft(draft);
  const field = useRef();
  const chooser = useRef();
  useEffect(() => {
    if (isFocusKept) field.current.focus();
    isFocusKept = false;
  }, []);
  // With what is sent, and not a moment after it: the conversation moves with the field's height.
  useLayoutEffect(() => {
    const { current } = field;
    current.style.height = "auto";
    current.style.height = `${Math.min(current.scrollHeight + 2, 220)}px`;
  }, [text]);
  const uploading = attachments.files.some(({ state }) => state === "uploading");
  const ready = attachments.files.filter(({ state }) => state === "ready");
  const possible = !disabled && !uploading && (text.trim() || ready.length > 0);
  const submit = (event) => {
    event.preventDefault();
    if (!possible) return;
    setText("");
    attachments.clear();
    onSend(text.trim(), ready);
  };
  const onKey = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const onPaste = (event) => {
    if (event.clipboardData?.files.length) attachments.add([...event.clipboardData.files]);
  };
  return html`
    <form class="composer" onSubmit=${submit}>
      <ul class="attachments" aria-label="Attached" aria-busy=${uploading} hidden=${attachments.files.length === 0}>
        ${attachments.files.map((file) => html`
          <li key=${file.id} class=${file.state}>
            <span>${file.name}</span>
            <small>${file.state === "failed" ? file.problem : file.state === "uploading" ? `${Math.floor(file.sent * 100)} %` : ""}</small>
            <button type="button" class="remove" aria-label=${`Remove ${file.name}`} onClick=${() => attachments.remove(file.id)}><${Icon} name="close" /></button>
          </li>`)}
      </ul>
      <div class="composer-row">
        <button type="button" class="button" aria-label="Attach files" onClick=${() => chooser.current.click()}><${Icon} name="attach" /></button>
        <input type="file" multiple hidden ref=${chooser} onChange=${(event) => (attachments.add([...event.target.files]), (event.target.value = ""))} />
        <textarea
          ref=${field} rows="1" aria-label="Message" placeholder="Write a message" value=${text}
          onInput=${(event) => setText(event.target.value)} onKeyDown=${onKey} onPaste=${onPaste}
        ></textarea>
        ${running && html`<button type="button" class="button danger" aria-label="Stop" onClick=${onStop}><${Icon} name="stop" /><span>Stop</span></button>`}
        <button class="button primary" aria-label="Send" disabled=${!possible}><${Icon} name="send" /><span>Send</span></button>
      </div>
    </form>`;
}
