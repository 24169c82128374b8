"""``/budgets/``: who may make them, of whom, and what they begin with."""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from libs.contracts.api.budgets import Budget
from libs.contracts.commands.runtime import CreateBudget
from libs.contracts.errors import BudgetExceeded, ErrorDetail, ExceededBudget
from libs.contracts.events.runtime import BudgetCreated
from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandRejected, Event
from tests.support.gateway import Gateway, Sent
from tests.support.usage import NOTHING

MONTH = {"period": "month", "cost": "250"}


EXCEEDED = ExceededBudget(
    budget_id="b", unit="cost", limit="250", used="250.01", renews_at="2030-02-01T00:00:00.000000Z"
)


def made(sent: Sent) -> Iterable[Event]:
    assert isinstance(sent.command, CreateBudget)
    now = "2030-01-01T00:00:00.000000Z"
    fields = {**sent.command.budget.model_dump(), "used": sent.command.used, "exceeded": False}
    moments = dict.fromkeys(("period_started_at", "created_at", "updated_at"), now)
    yield BudgetCreated(budget=Budget.model_validate({"id": sent.command_id, **fields, **moments}))


async def make(public: Gateway, body: dict[str, Any]) -> CreateBudget:
    public.bus.upstream = made
    reply = await public.client.post("/budgets/", json=body)
    assert reply.status_code == 201, reply.text
    command = public.bus.sent[-1].command
    assert isinstance(command, CreateBudget)
    assert reply.headers["location"] == f"/api/v1/budgets/{reply.json()['id']}/"
    return command


@pytest.mark.parametrize(
    "body",
    [
        {"period": "month"},
        {"period": "month", "cost": "1", "tokens": 5},
        {"period": "week", "cost": "1"},
        {"period": "day", "cost": 1},
        {"period": "day", "cost": "0"},
        {"period": "day", "cost": "NaN"},
        {"period": "day", "cost": "1e-20"},
        {"period": "day", "tokens": 0},
        {**MONTH, "warning_percent": 100},
        {**MONTH, "user_id": "a", "key_id": "b"},
        {**MONTH, "user_id": new_id()},
        {**MONTH, "key_id": "no id"},
        {**MONTH, "limit": 3},
    ],
)
async def test_what_is_no_budget_is_refused(public: Gateway, body: dict[str, Any]) -> None:
    reply = await public.client.post("/budgets/", json=body)
    assert reply.status_code == 422, reply.text
    assert public.bus.sent == []


@pytest.mark.parametrize("change", [{}, {"cost": "1", "tokens": 1}, {"cost": None}, {"period": "day"}])
async def test_changes_that_make_no_sense_are_refused(public: Gateway, change: dict[str, Any]) -> None:
    reply = await public.client.patch(f"/budgets/{new_id()}/", json=change)
    assert reply.status_code == 422, reply.text


async def test_budgets_take_their_scope(public: Gateway) -> None:
    secret, _ = public.keys.issue(scopes=frozenset({"usage:read", "company:write"}))
    for method, path in (("GET", "/budgets/"), ("POST", "/budgets/"), ("DELETE", f"/budgets/{new_id()}/")):
        reply = await public.client.request(method, path, headers={"x-api-key": secret})
        assert reply.status_code == 403, (method, path)


async def test_a_month_begins_with_what_it_has_taken(public: Gateway) -> None:
    public.usage.totals = replace(NOTHING, cost=Decimal("1.50"), input_tokens=100, output_tokens=20)
    _, key = public.keys.issue()
    command = await make(public, {**MONTH, "key_id": key.id})
    assert (command.used.cost, command.used.tokens, command.owner_id) == ("1.5", 120, key.user_id)
    [(span, groups)] = public.usage.asked
    assert (span.key_id, span.user_id, groups) == (key.id, None, ())
    assert span.begin == public.clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)


async def test_a_total_begins_with_nothing(public: Gateway) -> None:
    command = await make(public, {"period": "total", "tokens": 1000})
    assert command.used.tokens == 0
    assert public.usage.asked == []


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_turn_beyond_a_budget_is_told_which_one_and_when_to_come_back(public: Gateway, accept: str) -> None:
    detail = ErrorDetail(loc=[], type="budget_exceeded", message="used up", budget=EXCEEDED)
    error = BudgetExceeded("a budget is used up", details=[detail], retry_after=3600)
    public.bus.upstream = lambda _: [CommandRejected(error=error.info())]
    reply = await public.client.post(
        f"/runtime/{new_id()}/execute/", json={"content": "hello"}, headers={"accept": accept}
    )
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "3600")
    found = reply.json()["error"]
    assert found["type"] == "budget_exceeded"
    assert found["details"][0]["budget"] == EXCEEDED.model_dump()
