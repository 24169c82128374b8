"""The `aes budgets` commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.commands import Commands
from cli.connection import ApiKey, BaseUrl, connected
from cli.terminal import Json, local_time, show, show_table

if TYPE_CHECKING:
    from aes_client.models import Budget

app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False)
BudgetId = Annotated[str, typer.Argument(help="ID of the budget, from `aes budgets list`.")]
Cost = Annotated[str | None, typer.Option("--cost", help="Maximum cost, such as 12.50.")]
Tokens = Annotated[int | None, typer.Option("--tokens", min=1, help="Maximum number of tokens, input plus output.")]
Warn = Annotated[
    int | None, typer.Option("--warn", min=1, max=99, help="Percentage of the limit that triggers a warning event.")
]


@app.command("list")
def list_all(json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """List the company's budgets and their usage."""
    with connected(json_output, base_url, api_key) as client:
        found = list(client.budgets.list())
    rows = [(each.id, _whose(each), each.period, _use(each), local_time(each.renews_at)) for each in found]
    show_table(json_output, {"budgets": found}, ("id", "of", "period", "used", "renews"), rows)


@app.command()
def create(
    period: Annotated[str, typer.Option("--period", help="Period: day, month or total.")],
    cost: Cost = None,
    tokens: Tokens = None,
    user: Annotated[
        str | None, typer.Option("--user", help="ID of the user to limit.", show_default="the whole company")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="ID of the API key to limit.")] = None,
    warn: Warn = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Create a budget with --cost or --tokens."""
    body = _given(period=period, cost=cost, tokens=tokens, user_id=user, key_id=key, warning_percent=warn)
    with connected(json_output, base_url, api_key) as client:
        _show(client.budgets.create(**body), json_output)


@app.command()
def change(
    budget_id: BudgetId,
    cost: Cost = None,
    tokens: Tokens = None,
    warn: Warn = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Change a budget's limit or warning threshold. The current period's usage still counts."""
    with connected(json_output, base_url, api_key) as client:
        changes = _given(cost=cost, tokens=tokens, warning_percent=warn)
        _show(client.budgets.update(budget_id, **changes), json_output)


@app.command()
def delete(budget_id: BudgetId, json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """Delete a budget."""
    with connected(json_output, base_url, api_key) as client:
        client.budgets.delete(budget_id)
    show(json_output, {"id": budget_id, "deleted": True}, "Deleted the budget.")


def _given(**fields: Any) -> Any:
    return {name: value for name, value in fields.items() if value is not None}


def _show(budget: Budget, json_output: bool) -> None:
    used = f"{_use(budget)} used this period ({budget.period})"
    show(json_output, budget, f"Budget {budget.id} of {_whose(budget)}: {used}.")


def _whose(budget: Budget) -> str:
    if budget.key_id is not None:
        return f"key {budget.key_id}"
    return f"user {budget.user_id}" if budget.user_id is not None else "the company"


def _use(budget: Budget) -> str:
    if budget.cost is not None:
        return f"{budget.used.cost} of {budget.cost}"
    return f"{budget.used.tokens:,} of {budget.tokens:,} tokens"
