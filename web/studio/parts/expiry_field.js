/** When something ends. */
import { html } from "../../html.js";
import { LIFETIMES } from "../../model/expiry.js";
import { SelectField, TextField } from "./field.js";

/** `never`: whether it may have no end. */
export function ExpiryField({ lifetime, day, onChange, problem, never = false }) {
  const options = never ? [["", "never"], ...LIFETIMES] : LIFETIMES;
  return html`
    <${SelectField} label="Expires" name="expires_at" problem=${problem} value=${lifetime} options=${options} onValue=${(value) => onChange({ lifetime: value, day })} />
    ${lifetime === "date" && html`<${TextField} label="Last day" type="date" required value=${day} onValue=${(value) => onChange({ lifetime, day: value })} />`}`;
}
