/** Form fields with the service's validation messages, and dialogs. */
import { write } from "../../api/client.js";
import { html, useEffect, useId, useRef, useState } from "../../html.js";
import { useAction } from "./hooks.js";
import { Icon, Problem } from "./views.js";

/**
 * A field. `children` renders the control with attributes that link it to its label, hint and problem. `name`: the
 * field's name in the API.
 */
export function Field({ label, name, hint, problem, className = "", children }) {
  const id = useId();
  const found = name ? (problem?.details ?? []).filter(({ loc }) => String(loc[0] === "body" ? loc[1] : loc[0]) === name) : [];
  const described = [hint && `${id}-hint`, found.length > 0 && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  return html`
    <div class=${`field ${className}`}>
      <label for=${id}>${label}</label>
      ${children({ id, "aria-describedby": described, "aria-invalid": found.length > 0 ? "true" : undefined })}
      ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
      ${found.length > 0 && html`
        <p class="field-problem" id=${`${id}-problem`}>
          ${found.map(({ loc, message, hint: way }) => `${placeOf(loc.slice(1))} ${message}${way ? ` (${way})` : ""}`.trim()).join("; ")}
        </p>`}
    </div>`;
}

/** Describes a location within a field. Entries are counted from one: `entry 2`. */
function placeOf(loc) {
  return loc.map((part) => (typeof part === "number" ? `entry ${part + 1}` : part)).join(", ");
}

/** A text field. Other attributes are passed to the input. */
export function TextField({ label, name, hint, problem, value, onValue, className, type = "text", ...rest }) {
  return html`
    <${Field} label=${label} name=${name} hint=${hint} problem=${problem} className=${className}>
      ${(given) => html`<input type=${type} autocomplete="off" value=${value} onInput=${(event) => onValue(event.target.value)} ...${given} ...${rest} />`}
    <//>`;
}

/** A select. `options` are values, or pairs of value and text. */
export function SelectField({ label, name, hint, problem, value, onValue, options, className }) {
  return html`
    <${Field} label=${label} name=${name} hint=${hint} problem=${problem} className=${className}>
      ${(given) => html`
        <select value=${value} onChange=${(event) => onValue(event.target.value)} ...${given}>
          ${options.map((option) => {
            const [key, text] = Array.isArray(option) ? option : [option, option];
            return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`;
          })}
        </select>`}
    <//>`;
}

/** A field for an expiry. `never`: whether "never" is an option. */
export function ExpiryField({ lifetime, day, onChange, problem, never = false }) {
  const options = never ? [["", "never"], ...LIFETIMES] : LIFETIMES;
  return html`
    <${SelectField} label="Expires" name="expires_at" problem=${problem} value=${lifetime} options=${options} onValue=${(value) => onChange({ lifetime: value, day })} />
    ${lifetime === "date" && html`<${TextField} label="Last day" type="date" required value=${day} onValue=${(value) => onChange({ lifetime, day: value })} />`}`;
}

/** The choices for a key's expiry: after a number of days, or at the end of a chosen day. */
const LIFETIMES = [["7", "in 7 days"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"], ["date", "on a date"]];

/** Returns the time in the API's format, or undefined for never. `day`: a local date, such as `2030-01-31`. */
export function expiryOf(lifetime, day, now = Date.now()) {
  if (lifetime === "date") return day ? new Date(`${day}T23:59:59`).toISOString() : undefined;
  return lifetime ? new Date(now + Number(lifetime) * 86_400_000).toISOString() : undefined;
}

/** Returns a key's status: `valid`, `being replaced`, `expired` or `revoked`. */
export function keyState({ revoked_at: revoked, expires_at: expires, successor_id: successor }, now = Date.now()) {
  if (revoked) return "revoked";
  if (expires && Date.parse(expires) <= now) return "expired";
  return successor ? "being replaced" : "active";
}

/** A dialog. `sticky`: whether only its own buttons close it. `wide`: for wide content. */
export function Dialog({ title, onClose, sticky = false, wide = false, children }) {
  const box = useRef();
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    // By default, a dialog focuses its first button, which is the one that closes it.
    if (!box.current.querySelector("[autofocus]")) box.current.querySelector(".dialog-body :is(input, select, textarea)")?.focus();
    return () => before?.focus?.();
  }, []);
  const beside = (event) => !sticky && event.target === box.current && onClose();
  const cancel = (event) => sticky && event.target === box.current && event.preventDefault();
  const closed = (event) => {
    if (event.target !== box.current) return;
    // Browsers close a dialog on the second Escape, even if the page prevents it.
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

/** Runs `onConfirm`, then closes the dialog or shows the error. */
export function Confirm({ title, action, onConfirm, onClose, children }) {
  const { busy, problem, run } = useAction(async () => {
    await onConfirm();
    onClose();
  });
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      ${children}
      <${Problem} of=${problem} />
      <div class="dialog-actions">
        <button class="button" autofocus onClick=${onClose}>Cancel</button>
        <button class="button danger filled" disabled=${busy} onClick=${run}>${action}</button>
      </div>
    <//>`;
}

/**
 * A dialog with a form that calls `onSubmit`. `children` renders the fields, given the error of the last attempt. The
 * fields named in `shown` display their own errors.
 */
export function FormDialog({ title, action = "Save", shown = [], disabled = false, onSubmit, onClose, children }) {
  const { busy, problem, run } = useAction(onSubmit);
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <form class="form" autocomplete="off" onSubmit=${(event) => (event.preventDefault(), run())}>
        ${children(problem)}
        <${Problem} of=${problem} shown=${shown} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy || disabled}>${action}</button>
        </div>
      </form>
    <//>`;
}

/** A button that copies text. Not shown on pages without TLS, where browsers offer no clipboard. */
export function CopyButton({ text, label = "Copy" }) {
  const [said, setSaid] = useState("");
  if (!navigator.clipboard) return null;
  const copy = async () => {
    const given = typeof text === "function" ? text() : text;
    setSaid(await navigator.clipboard.writeText(given).then(() => "Copied", () => "Not copied"));
    setTimeout(() => setSaid(""), 1500);
  };
  return html`<button class="button small" onClick=${copy}><${Icon} name=${said === "Copied" ? "check" : "copy"} />${said || label}</button>`;
}

/** Shows a secret that the service returns only once. */
export function SecretOnce({ title, secret, children, onDone }) {
  return html`
    <${Dialog} title=${title} onClose=${onDone} sticky>
      ${children}
      <p class="secret-once"><code tabindex="0">${secret}</code><${CopyButton} text=${secret} /></p>
      <p class="muted">It's only shown once.</p>
      <div class="dialog-actions"><button class="button primary" autofocus onClick=${onDone}>Done</button></div>
    <//>`;
}

const GRACES = [["0", "not at all"], ["60", "for a minute"], ["3600", "for an hour"], ["86400", "for a day"], ["604800", "for a week"]];

/** A dialog to rotate a secret. `least`: the shortest grace period in seconds. */
export function RotateDialog({ title, path, least = 0, onRotated, onClose, children }) {
  const [grace, setGrace] = useState("86400");
  const { busy, problem, run } = useAction(async () => onRotated(await write("POST", path, { grace_seconds: Number(grace) })));
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      ${children}
      <${SelectField} label="Keep the old one working" name="grace_seconds" problem=${problem} value=${grace} onValue=${setGrace}
        options=${GRACES.filter(([seconds]) => Number(seconds) >= least)} />
      <${Problem} of=${problem} shown=${["grace_seconds"]} />
      <div class="dialog-actions">
        <button class="button" onClick=${onClose}>Cancel</button>
        <button class="button primary" disabled=${busy} onClick=${() => run()}>Rotate</button>
      </div>
    <//>`;
}
