/** The message composer. Accepts text, and files by button, drop or paste. Enter sends the message. */
import { html, Icon, useEffect, useLayoutEffect, useRef, useState } from "../html.js";

const HIGHEST_PX = 220;

/**
 * The composer. `files` come from `useAttachments`. While `mayAttach` is unknown (null), the button's space is
 * reserved. With `readOnly`, the text stays, so that it can be copied.
 */
export function Composer({ text, onText, files, running, disabled, readOnly = false, mayAttach = true, placeholder = "Write a message", onSend, onStop }) {
  const field = useRef();
  const chooser = useRef();
  // Resize in the same frame in which text is sent, since the conversation moves with the field.
  useLayoutEffect(() => {
    const { style } = field.current;
    style.height = "auto";
    style.height = `${Math.min(field.current.scrollHeight + 2, HIGHEST_PX)}px`;
  }, [text]);
  const uploading = files.all.some(({ state }) => state === "uploading");
  const ready = files.all.filter(({ state }) => state === "ready");
  const possible = !disabled && !readOnly && !uploading && (text.trim() || ready.length > 0);
  const submit = (event) => {
    event.preventDefault();
    if (!possible) return;
    onText("");
    files.clear();
    onSend(text.trim(), ready);
  };
  const onKey = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const onPaste = (event) => {
    if (mayAttach && !readOnly && event.clipboardData?.files.length) files.add([...event.clipboardData.files]);
  };
  return html`
    <form class="composer" onSubmit=${submit}>
      <ul class="attachments" aria-label="Attached" aria-busy=${uploading} hidden=${files.all.length === 0}>
        ${files.all.map((file) => html`
          <li key=${file.id} class=${file.state}>
            <span>${file.name}</span>
            <small>${{ failed: file.problem, uploading: file.sent === null ? "uploading…" : `${Math.floor(file.sent * 100)} %` }[file.state]}</small>
            <button type="button" class="remove" aria-label=${`Remove ${file.name}`} onClick=${() => files.remove(file.id)}><${Icon} name="close" /></button>
          </li>`)}
      </ul>
      <div class="composer-row">
        ${mayAttach !== false && html`
          <button type="button" class=${mayAttach ? "button" : "button unknown"} aria-label="Attach files" disabled=${readOnly} onClick=${() => chooser.current.click()}><${Icon} name="attach" /></button>
          <input type="file" multiple hidden aria-label="Files" ref=${chooser} onChange=${(event) => (files.add([...event.target.files]), (event.target.value = ""))} />`}
        <textarea
          ref=${field} rows="1" aria-label="Message" placeholder=${placeholder} value=${text} readonly=${readOnly}
          onInput=${(event) => onText(event.target.value)} onKeyDown=${onKey} onPaste=${onPaste}
        ></textarea>
        ${running && html`<button type="button" class="button danger" aria-label="Stop" onClick=${onStop}><${Icon} name="stop" /><span>Stop</span></button>`}
        <button class="button primary send" aria-label="Send" disabled=${!possible}><${Icon} name="send" /><span>Send</span></button>
      </div>
    </form>`;
}

let last = 0;

/**
 * Uploads files to a session. `upload(file, {signal, onProgress})` resolves to the artifact. In the result, `all` is a
 * list of `{id, name, state, sent, artifact, problem}`.
 */
export function useAttachments(upload) {
  const [all, setAll] = useState([]);
  const under = useRef(new Map());
  const change = (id, fields) => setAll((files) => files.map((each) => (each.id === id ? { ...each, ...fields } : each)));
  useEffect(() => () => under.current.forEach((stop) => stop.abort()), []);
  const send = async (id, file) => {
    const { signal } = under.current.get(id);
    if (signal.aborted) return;
    try {
      change(id, { state: "ready", artifact: await upload(file, { signal, onProgress: (sent) => change(id, { sent }) }) });
    } catch (problem) {
      change(id, { state: "failed", problem: problem.message });
    } finally {
      under.current.delete(id);
    }
  };
  return {
    all,
    add: async (chosen) => {
      const added = chosen.map((file) => ({ id: (last += 1), file }));
      for (const { id } of added) under.current.set(id, new AbortController());
      setAll((files) => [...files, ...added.map(({ id, file }) => ({ id, name: file.name, state: "uploading", sent: null, artifact: null, problem: "" }))]);
      // One at a time: the first upload creates the session.
      for (const { id, file } of added) await send(id, file);
    },
    remove: (id) => {
      under.current.get(id)?.abort();
      setAll((files) => files.filter((each) => each.id !== id));
    },
    clear: () => setAll([]),
  };
}
