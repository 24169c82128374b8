/** Budgets of the company: what is allowed, what of it is used, and new ones. */
import { get, write } from "../../api/client.js";
import { html, useState } from "../../app/html.js";
import { momentText, numberText } from "../../model/format.js";
import { Confirm } from "../confirm.js";
import { DataTable } from "../data_table.js";
import { Dialog } from "../dialog.js";
import { SelectField, TextField } from "../field.js";
import { Icon } from "../icon.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";
import { useLoaded } from "../use_loaded.js";

const PERIODS = [["day", "a day"], ["month", "a month"], ["total", "in total"]];
const SHOWN = ["description", "period", "cost", "tokens"];

/** `names` are those of users and keys, by id. */
export function Budgets({ names }) {
  const { value: page, problem, refresh } = useLoaded((signal) => get("/budgets/", { limit: 100 }, { signal }));
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const columns = [
    { label: "Budget", className: "plain", cell: ({ description, user_id: user, key_id: key }) => html`${description || "Budget"}<br /><span class="muted">${user || key ? (names.get(user ?? key) ?? user ?? key) : "the whole company"}</span>` },
    { label: "Limit", className: "nowrap", cell: (budget) => `${limitOf(budget)} ${PERIODS.find(([each]) => each === budget.period)?.[1] ?? budget.period}` },
    { label: "Used", className: "nowrap", cell: (budget) => html`<span class=${`chip ${budget.exceeded ? "bad" : ""}`}>${usedOf(budget)}</span>` },
    { label: "Renews", className: "nowrap", cell: ({ renews_at: at }) => (at ? momentText(at) : "never") },
    { cell: (budget) => html`<button class="button small danger" aria-label=${`Delete ${budget.description || "budget"}`} onClick=${() => setOpen(budget)}>Delete</button>` },
  ];
  return html`
    <section aria-labelledby="budgets">
      <div class="section-head">
        <h2 id="budgets">Budgets</h2>
        <button class="button small" onClick=${() => setOpen("new")}><${Icon} name="plus" />New budget</button>
      </div>
      <${Problem} of=${problem} />
      ${page && html`<${DataTable} label="Budgets" items=${page.budgets} keyOf=${({ id }) => id} columns=${columns} empty="No budget yet: nothing limits what turns take." />`}
      ${open === "new" && html`<${NewBudget} onClose=${close} onMade=${() => (close(), refresh())} />`}
      ${open?.id && html`
        <${Confirm} title=${`Delete ${open.description || "this budget"}?`} action="Delete" onClose=${close}
          onConfirm=${async () => (await write("DELETE", `/budgets/${open.id}/`), await refresh())}>
          <p>It limits nothing any more.</p>
        <//>`}
    </section>`;
}

function limitOf({ cost, tokens }) {
  return cost === null ? `${numberText(tokens)} tokens` : `cost ${cost}`;
}

function usedOf({ cost, used }) {
  return cost === null ? `${numberText(used.tokens)} tokens` : `cost ${used.cost}`;
}

function NewBudget({ onMade, onClose }) {
  const [description, setDescription] = useState("");
  const [period, setPeriod] = useState("month");
  const [unit, setUnit] = useState("cost");
  const [limit, setLimit] = useState("");
  const { busy, problem, run } = useAction(async () => {
    const body = { description: description.trim(), period, [unit]: unit === "tokens" ? Number(limit) : limit.trim() };
    onMade(await write("POST", "/budgets/", body));
  });
  const submit = (event) => (event.preventDefault(), run());
  return html`
    <${Dialog} title="New budget" onClose=${onClose}>
      <form class="form" onSubmit=${submit}>
        <p class="muted">A limit of the whole company. When it is used up, new turns are refused until it renews.</p>
        <${TextField} label="Description" name="description" maxlength="200" problem=${problem} value=${description} onValue=${setDescription} />
        <div class="form-row">
          <${SelectField} label="Of" value=${unit} onValue=${setUnit} options=${[["cost", "cost"], ["tokens", "tokens"]]} />
          <${TextField} label="Limit" name=${unit} required inputmode="decimal" problem=${problem} value=${limit} onValue=${setLimit} />
          <${SelectField} label="Period" name="period" problem=${problem} value=${period} onValue=${setPeriod} options=${PERIODS} />
        </div>
        <${Problem} of=${problem} shown=${SHOWN} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy || !limit.trim()}>Create</button>
        </div>
      </form>
    <//>`;
}
