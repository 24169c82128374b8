/** Budgets that are used up: turns are refused until they renew or are changed. */
import { get } from "../../../api/client.js";
import { html } from "../../../html.js";
import { hrefOf } from "../../router.js";
import { momentText } from "../../../model/format.js";
import { useLoaded } from "../use_loaded.js";

const LIMIT = 100;

export function UsedUpBudgets() {
  const { value: page } = useLoaded((signal) => get("/budgets/", { limit: LIMIT }, { signal }), "", { changes: "budget" });
  const usedUp = page?.budgets.filter(({ exceeded }) => exceeded) ?? [];
  if (!usedUp.length) return null;
  return html`
    <div class="problem" role="alert">
      ${usedUp.map(({ id, description, user_id: user, key_id: key, renews_at: renews }) => html`
        <p key=${id}>
          <b>${description || `The budget of ${user ? "a user" : key ? "a key" : "the company"}`}</b> is used up: its turns are refused
          until ${renews ? momentText(renews) : "it is changed"}. <a href=${hrefOf("usage/")}>Budgets</a>
        </p>`)}
    </div>`;
}
