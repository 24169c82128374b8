/** Usage by agent, model, user or key, the largest first. */
import { html } from "../../../html.js";
import { durationText, numberText } from "../../../model/format.js";
import { DataTable } from "../data_table.js";

export function UsageTable({ label, items, nameOf }) {
  const columns = [
    { label, className: "plain", cell: nameOf },
    { label: "Turns", className: "number", cell: ({ turns }) => numberText(turns) },
    { label: "Tokens in", className: "number", cell: ({ input_tokens: tokens }) => numberText(tokens) },
    { label: "Tokens out", className: "number", cell: ({ output_tokens: tokens }) => numberText(tokens) },
    { label: "Tool calls", className: "number", cell: ({ tool_calls: calls }) => numberText(calls) },
    { label: "Work", className: "number nowrap", cell: ({ seconds }) => durationText(seconds * 1000) },
    { label: "Cost", className: "number nowrap", cell: costOf },
  ];
  const largest = items.toSorted((a, b) => Number(b.cost) - Number(a.cost) || b.turns - a.turns);
  return html`<${DataTable} label=${`Usage by ${label.toLowerCase()}`} items=${largest} keyOf=${(item) => JSON.stringify(nameOf(item))} columns=${columns} empty="No turn has ended in this time." />`;
}

/** An exact decimal, as the service writes it; what it leaves out is said. */
export function costOf({ cost, unpriced_turns: unpriced }) {
  return html`${cost}${unpriced > 0 && html` <small class="muted">(${numberText(unpriced)} unpriced)</small>`}`;
}
