"""`aes budgets`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from cli.api import RetryingApi
from cli.connection import ApiKey, BaseUrl, connect
from cli.terminal import Json, failures_explained, note, print_json, print_table

app = typer.Typer(help="Limit what turns may take.", no_args_is_help=True, add_completion=False)
BudgetId = Annotated[str, typer.Argument(help="Id of the budget, as `aes budgets list` shows it.")]
Cost = Annotated[str | None, typer.Option("--cost", help="Most that turns may cost, such as 12.50.")]
Tokens = Annotated[int | None, typer.Option("--tokens", min=1, help="Most tokens, input and output together.")]
Warn = Annotated[int | None, typer.Option("--warn", min=1, max=99, help="Percent at which there is an event.")]


@app.command("list")
def list_all(json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """List the company's budgets with what is used of them."""
    with _api(json_output, base_url, api_key) as api:
        found = list(api.items("/budgets/", "budgets"))
    if json_output:
        print_json({"budgets": found})
        return
    rows = [(each["id"], _whose(each), each["period"], _use(each), each["renews_at"]) for each in found]
    print_table(("id", "of", "period", "used", "renews"), rows)


@app.command()
def create(
    period: Annotated[str, typer.Option("--period", help="day, month or total.")],
    cost: Cost = None,
    tokens: Tokens = None,
    user: Annotated[str | None, typer.Option("--user", help="Id of a user; else it is the company's.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Id of an API key.")] = None,
    warn: Warn = None,
    json_output: Json = False,
    base_url: BaseUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Make a budget, in --cost or in --tokens."""
    body = {"period": period, **_given(cost=cost, tokens=tokens, user_id=user, key_id=key, warning_percent=warn)}
    with _api(json_output, base_url, api_key) as api:
        _show(api.call("POST", "/budgets/", body), json_output)


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
    """Change the limit of a budget, or its warning. What was used of it stays."""
    with _api(json_output, base_url, api_key) as api:
        body = _given(cost=cost, tokens=tokens, warning_percent=warn)
        _show(api.call("PATCH", f"/budgets/{budget_id}/", body), json_output)


@app.command()
def delete(budget_id: BudgetId, json_output: Json = False, base_url: BaseUrl = None, api_key: ApiKey = None) -> None:
    """Delete a budget."""
    with _api(json_output, base_url, api_key) as api:
        api.call("DELETE", f"/budgets/{budget_id}/")
    if json_output:
        print_json({"id": budget_id, "deleted": True})
    else:
        note("The budget is deleted.")


@contextmanager
def _api(json_output: bool, base_url: str | None, api_key: str | None) -> Iterator[RetryingApi]:
    with failures_explained(json_output), connect(base_url, api_key).client() as client:
        yield RetryingApi(client)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _show(budget: dict[str, Any], json_output: bool) -> None:
    if json_output:
        print_json(budget)
    else:
        note(f"Budget {budget['id']} of {_whose(budget)}: {_use(budget)} used in this period ({budget['period']}).")


def _whose(budget: dict[str, Any]) -> str:
    if budget["key_id"] is not None:
        return f"key {budget['key_id']}"
    return f"user {budget['user_id']}" if budget["user_id"] is not None else "the company"


def _use(budget: dict[str, Any]) -> str:
    if budget["cost"] is not None:
        return f"{budget['used']['cost']} of {budget['cost']}"
    return f"{budget['used']['tokens']:,} of {budget['tokens']:,} tokens"
