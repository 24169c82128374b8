/** A new budget, of the company, a user or a key; or what can be changed about one. */
import { write } from "../../../api/client.js";
import { session } from "../../../api/session.js";
import { html, useMemo, useState } from "../../../html.js";
import { keyState } from "../../../model/expiry.js";
import { Dialog } from "../dialog.js";
import { SelectField, TextField } from "../field.js";
import { Problem } from "../problem.js";
import { useAction } from "../use_action.js";

export const PERIODS = [["day", "a day"], ["month", "a month"], ["total", "in total"]];
const KINDS = [["company", "the whole company"], ["user_id", "a user"], ["key_id", "a key"]];
const UNITS = [["cost", "cost"], ["tokens", "tokens"]];
const SHOWN = ["description", "period", "cost", "tokens", "user_id", "key_id", "warning_percent"];
const WARNING = 80;

/** `budget`: the one to be changed; whose it is and its period stay. */
export function BudgetForm({ budget = null, names, keys, onSaved, onClose }) {
  const [values, setValues] = useState(() => valuesOf(budget));
  const set = (name) => (value) => setValues((now) => ({ ...now, [name]: value }));
  const subjects = useSubjects(keys, names);
  const { description, kind, period, unit, limit, warning } = values;
  const subject = values[kind] ?? subjects[kind]?.[0]?.[0];
  const { busy, problem, run } = useAction(async () => {
    const body = { description: description.trim(), [unit]: unit === "tokens" ? Number(limit) : limit.trim(), warning_percent: warning.trim() ? Number(warning) : null };
    const whose = kind === "company" ? {} : { [kind]: subject };
    onSaved(budget ? await write("PATCH", `/budgets/${budget.id}/`, body) : await write("POST", "/budgets/", { ...body, ...whose, period }));
  });
  const submit = (event) => (event.preventDefault(), run());
  const nobody = !budget && kind !== "company" && !subject;
  return html`
    <${Dialog} title=${budget ? `Change ${budget.description || "the budget"}` : "New budget"} onClose=${onClose}>
      <form class="form" onSubmit=${submit}>
        <p class="muted">When it is used up, new turns are refused until it renews. Of several that apply, each must have something left.</p>
        <${TextField} label="Description" name="description" maxlength="1000" problem=${problem} value=${description} onValue=${set("description")} />
        ${!budget && html`
          <div class="form-row">
            <${SelectField} label="Whose" value=${kind} onValue=${set("kind")} options=${KINDS} />
            ${kind !== "company" && html`
              <${SelectField} label=${kind === "key_id" ? "Key" : "User"} name=${kind} problem=${problem} value=${subject} onValue=${set(kind)} options=${subjects[kind]}
                hint=${nobody ? "There is none that this key may see." : undefined} />`}
          </div>`}
        <div class="form-row">
          <${SelectField} label="Of" value=${unit} onValue=${set("unit")} options=${UNITS} />
          <${TextField} label="Limit" name=${unit} required inputmode="decimal" problem=${problem} value=${limit} onValue=${set("limit")} />
          ${!budget && html`<${SelectField} label="Period" name="period" problem=${problem} value=${period} onValue=${set("period")} options=${PERIODS} />`}
          <${TextField} label="Warn at (%)" name="warning_percent" type="number" min="1" max="99" problem=${problem} value=${warning} onValue=${set("warning")} />
        </div>
        <${Problem} of=${problem} shown=${SHOWN} />
        <div class="dialog-actions">
          <button type="button" class="button" onClick=${onClose}>Cancel</button>
          <button class="button primary" disabled=${busy || nobody || !limit.trim()}>${budget ? "Save" : "Create"}</button>
        </div>
      </form>
    <//>`;
}

function valuesOf(budget) {
  if (!budget) return { description: "", kind: "company", period: "month", unit: "cost", limit: "", warning: String(WARNING) };
  const unit = budget.cost === null ? "tokens" : "cost";
  return { description: budget.description, kind: "company", unit, limit: String(budget[unit]), warning: String(budget.warning_percent ?? "") };
}

/** Users are known by their keys. */
function useSubjects(keys, names) {
  return useMemo(() => {
    const usable = keys.filter((key) => !["revoked", "expired"].includes(keyState(key)));
    const { user_id: own, user_name: name } = session.value.me;
    const users = new Map([[own, `${name} (you)`]]);
    for (const { user_id: user, name: key, prefix } of usable) {
      if (!users.has(user)) users.set(user, names.get(user) ?? `who has the key ${key || `${prefix}…`}`);
    }
    return { user_id: [...users], key_id: usable.map(({ id, name: key, prefix }) => [id, key ? `${key} (${prefix}…)` : `${prefix}…`]) };
  }, [keys, names]);
}
