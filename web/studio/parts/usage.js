/** Lists, creates and changes budgets, and shows their use. */
import { get, session, write } from "../../api/client.js";
import { html, useMemo, useState } from "../../html.js";
import { countText, durationText, momentText, numberText } from "../../model/format.js";
import { Confirm, FormDialog, keyState, SelectField, TextField } from "./forms.js";
import { useLoaded, useUnchanged } from "./hooks.js";
import { DataTable, Icon, Problem } from "./views.js";

/** The budgets. `names`: the names of users and keys, by id. `keys`: the API keys that the user can see. */
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
      ${page && html`<${DataTable} label="Budgets" items=${page.budgets} keyOf=${({ id }) => id} columns=${columnsOf(names, setOpen)} empty="No budgets yet, so usage is unlimited." />`}
      ${(open?.kind === "new" || open?.kind === "change") && html`
        <${BudgetForm} budget=${open.budget} names=${names} keys=${keys} onClose=${close} onSaved=${() => (close(), refresh())} />`}
      ${open?.kind === "delete" && html`
        <${Confirm} title=${`Delete ${open.budget.description || "this budget"}?`} action="Delete" onClose=${close}
          onConfirm=${async () => (await write("DELETE", `/budgets/${open.budget.id}/`), await refresh())}>
          <p>Its limit no longer applies.</p>
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

/** Formats an amount in the budget's unit. */
function amountOf({ cost }, amount) {
  return cost === null ? `${countText(amount.tokens, "token")}` : `cost ${amount.cost}`;
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

const PERIODS = [["day", "a day"], ["month", "a month"], ["total", "in total"]];
const KINDS = [["company", "the whole company"], ["user_id", "a user"], ["key_id", "a key"]];
const UNITS = [["cost", "cost"], ["tokens", "tokens"]];
const SHOWN = ["description", "period", "cost", "tokens", "user_id", "key_id", "warning_percent"];
const WARNING = 80;

/** The form for a budget of the company, a user or a key. An existing `budget` keeps its subject and period. */
function BudgetForm({ budget = null, names, keys, onSaved, onClose }) {
  const [values, setValues] = useState(() => valuesOf(budget));
  const set = (name) => (value) => setValues((now) => ({ ...now, [name]: value }));
  const subjects = useSubjects(keys, names);
  const { description, kind, period, unit, limit, warning } = values;
  const subject = values[kind] ?? subjects[kind]?.[0]?.[0];
  const check = useUnchanged(budget, () => get(`/budgets/${budget.id}/`), (each) => JSON.stringify(valuesOf(each)));
  const submit = async () => {
    await check();
    const body = { description: description.trim(), [unit]: unit === "tokens" ? Number(limit) : limit.trim(), warning_percent: warning.trim() ? Number(warning) : null };
    const whose = kind === "company" ? {} : { [kind]: subject };
    onSaved(budget ? await write("PATCH", `/budgets/${budget.id}/`, body) : await write("POST", "/budgets/", { ...body, ...whose, period }));
  };
  const nobody = !budget && kind !== "company" && !subject;
  return html`
    <${FormDialog} title=${budget ? `Change ${budget.description || "budget"}` : "New budget"} action=${budget ? "Save" : "Create"} shown=${SHOWN} disabled=${nobody || !limit.trim()} onSubmit=${submit} onClose=${onClose}>
      ${(problem) => html`
        <p class="muted">Once the budget is used up, new turns are rejected until it renews. If several budgets apply, turns are rejected when any of them is used up.</p>
        <${TextField} label="Description" name="description" maxlength="1000" problem=${problem} value=${description} onValue=${set("description")} />
        ${!budget && html`
          <div class="form-row">
            <${SelectField} label="Applies to" value=${kind} onValue=${set("kind")} options=${KINDS} />
            ${kind !== "company" && html`
              <${SelectField} label=${kind === "key_id" ? "Key" : "User"} name=${kind} problem=${problem} value=${subject} onValue=${set(kind)} options=${subjects[kind]}
                hint=${nobody ? "Your key can't see other users." : undefined} />`}
          </div>`}
        <div class="form-row">
          <${SelectField} label="Limit on" value=${unit} onValue=${set("unit")} options=${UNITS} />
          <${TextField} label="Limit" name=${unit} required inputmode="decimal" problem=${problem} value=${limit} onValue=${set("limit")} />
          ${!budget && html`<${SelectField} label="Period" name="period" problem=${problem} value=${period} onValue=${set("period")} options=${PERIODS} />`}
          <${TextField} label="Warn at (%)" name="warning_percent" type="number" min="1" max="99" problem=${problem} value=${warning} onValue=${set("warning")} />
        </div>`}
    <//>`;
}

function valuesOf(budget) {
  if (!budget) return { description: "", kind: "company", period: "month", unit: "cost", limit: "", warning: String(WARNING) };
  const unit = budget.cost === null ? "tokens" : "cost";
  return { description: budget.description, kind: "company", unit, limit: String(budget[unit]), warning: String(budget.warning_percent ?? "") };
}

/** Users are identified by their keys. */
function useSubjects(keys, names) {
  return useMemo(() => {
    const usable = keys.filter((key) => !["revoked", "expired"].includes(keyState(key)));
    const { user_id: own, user_name: name } = session.value.me;
    const users = new Map([[own, `${name} (you)`]]);
    for (const { user_id: user, name: key, prefix } of usable) {
      if (!users.has(user)) users.set(user, names.get(user) ?? `owner of the key ${key || `${prefix}…`}`);
    }
    return { user_id: [...users], key_id: usable.map(({ id, name: key, prefix }) => [id, key ? `${key} (${prefix}…)` : `${prefix}…`]) };
  }, [keys, names]);
}

/** Usage by agent, model, user or key, largest first. */
export function UsageTable({ label, items, nameOf }) {
  const columns = [
    { label, className: "plain", cell: nameOf },
    { label: "Turns", className: "number", cell: ({ turns }) => numberText(turns) },
    { label: "Tokens in", className: "number", cell: ({ input_tokens: tokens }) => numberText(tokens) },
    { label: "Tokens out", className: "number", cell: ({ output_tokens: tokens }) => numberText(tokens) },
    { label: "Tool calls", className: "number", cell: ({ tool_calls: calls }) => numberText(calls) },
    { label: "Working time", className: "number nowrap", cell: ({ seconds }) => durationText(seconds * 1000) },
    { label: "Cost", className: "number nowrap", cell: costOf },
  ];
  const largest = items.toSorted((a, b) => Number(b.cost) - Number(a.cost) || b.turns - a.turns);
  return html`<${DataTable} label=${`Usage by ${label.toLowerCase()}`} items=${largest} keyOf=${(item) => JSON.stringify(nameOf(item))} columns=${columns} empty="No turns finished in this period." />`;
}

/** Formats an exact decimal cost, with the number of turns that it doesn't include. */
export function costOf({ cost, unpriced_turns: unpriced }) {
  return html`${cost}${unpriced > 0 && html` <small class="muted">(${numberText(unpriced)} unpriced)</small>`}`;
}
