/** A field with its label, a hint, and what the service said about its value. */
import { html, useId } from "../../html.js";

/** `children` makes the control of the attributes that tie it to label, hint and problem; `name` is the API's. */
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

/** A place within a field, as people count: its second entry is `entry 2`. */
function placeOf(loc) {
  return loc.map((part) => (typeof part === "number" ? `entry ${part + 1}` : part)).join(", ");
}

/** A field for text; more attributes go to the input. */
export function TextField({ label, name, hint, problem, value, onValue, className, type = "text", ...rest }) {
  return html`
    <${Field} label=${label} name=${name} hint=${hint} problem=${problem} className=${className}>
      ${(given) => html`<input type=${type} autocomplete="off" value=${value} onInput=${(event) => onValue(event.target.value)} ...${given} ...${rest} />`}
    <//>`;
}

/** A choice of one; `options` are values, or pairs of value and text. */
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
