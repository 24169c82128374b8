/** The name of a service in its colour. */
import { html } from "../app/html.js";

export function ServiceChip({ service }) {
  return html`<span class=${`service ${service}`}>${service}</span>`;
}
