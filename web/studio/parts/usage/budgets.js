/** Budgets: what is allowed to whom, what of it is used, and new ones. */
import { get, write } from "../../../api/client.js";
import { html, useState } from "../../../html.js";
import { momentText, numberText } from "../../../model/format.js";
import { Confirm } from "../confirm.js";
import { DataTable } from "../data_table.js";
import { Icon } from "../icon.js";
import { Problem } from "../problem.js";
import { useLoaded } from "../use_loaded.js";
import { BudgetForm, PERIODS } from "./budget_form.js";

/** `names` are those of users and keys, by id; `keys` are the API keys that can be seen. */
export function Budgets({ names, keys }) {
  const { value: page, problem, refresh } = useLoaded((signal) => get("/budgets/", { limit: 100 }, { signal }), "", { changes: "budget" });
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  return html`
    <section aria-labelledby="budgets">
      <div class="section-head">
        <h2 id="budgets">Budgets</h2>
        <button class="button small" onClick=${() => setOpen({ kind: "new" })}><${Icon} name="plus" />New budget</button>
      </div>
      <${Problem} of=${problem} />
      ${page && html`<${DataTable} label="Budgets" items=${page.budgets} keyOf=${({ id }) => id} columns=${columnsOf(names, setOpen)} empty="No budget yet: nothing limits what turns take." />`}
      ${(open?.kind === "new" || open?.kind === "change") && html`
        <${BudgetForm} budget=${open.budget} names=${names} keys=${keys} onClose=${close} onSaved=${() => (close(), refresh())} />`}
      ${open?.kind === "delete" && html`
        <${Confirm} title=${`Delete ${open.budget.description || "this budget"}?`} action="Delete" onClose=${close}
          onConfirm=${async () => (await write("DELETE", `/budgets/${open.budget.id}/`), await refresh())}>
          <p>It limits nothing any more.</p>
        <//>`}
    </section>`;
}

function columnsOf(names, onOpen) {
  const named = ({ description }) => description || "budget";
  return [
    { label: "Budget", className: "plain", cell: (budget) => html`<b>${budget.description || "Budget"}</b><br /><span class="muted">${whoseOf(budget, names)}</span>` },
    { label: "Limit", className: "nowrap", cell: (budget) => `${amountOf(budget, budget)} ${PERIODS.find(([each]) => each === budget.period)?.[1] ?? budget.period}` },
    { label: "Used", cell: (budget) => html`<${Used} budget=${budget} />` },
    { label: "Renews", className: "nowrap", cell: ({ renews_at: at }) => (at ? momentText(at) : "never") },
    {
      cell: (budget) => html`
        <button class="button small" aria-label=${`Change ${named(budget)}`} onClick=${() => onOpen({ kind: "change", budget })}>Change</button>
        <button class="button small danger" aria-label=${`Delete ${named(budget)}`} onClick=${() => onOpen({ kind: "delete", budget })}>Delete</button>`,
    },
  ];
}

function whoseOf({ user_id: user, key_id: key }, names) {
  if (key) return `the key ${names.get(key) ?? key}`;
  if (user) return `the user ${names.get(user) ?? user}`;
  return "the whole company";
}

/** By the measure of the budget. */
function amountOf({ cost }, amount) {
  return cost === null ? `${numberText(amount.tokens)} tokens` : `cost ${amount.cost}`;
}

function Used({ budget }) {
  const { cost, tokens, used, exceeded, warning_percent: warning } = budget;
  const percent = 100 * (cost === null ? used.tokens / tokens : Number(used.cost) / Number(cost));
  const look = exceeded ? "bad" : warning !== null && percent >= warning ? "warning" : "";
  return html`
    <span class=${`share ${look}`}>
      <span class="share-bar" aria-hidden="true"><i style=${{ width: `${Math.min(100, percent)}%` }}></i></span>
      ${amountOf(budget, used)} <small class="muted">${numberText(Math.floor(percent))} %${exceeded ? ", used up" : ""}</small>
    </span>`;
}
