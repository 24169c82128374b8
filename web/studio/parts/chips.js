/** Words with a colour that only repeats them. */
import { html } from "../../html.js";

const LOOKS = {
  completed: "good", ready: "good", delivered: "good", enabled: "good", active: "good",
  failed: "bad", failing: "bad", revoked: "bad", expired: "bad", unreachable: "bad", unavailable: "bad",
  running: "busy", pending: "busy", "being replaced": "busy", degraded: "busy", "not ready": "busy",
};

export function StatusChip({ status }) {
  return html`<span class=${`chip ${LOOKS[status] ?? ""}`}>${status}</span>`;
}

/** The name of a service in its colour. */
export function ServiceChip({ service }) {
  return html`<span class=${`service of-${service}`}>${service}</span>`;
}
