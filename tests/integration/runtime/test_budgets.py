"""Budgets: turns are refused when one is used up, by every worker alike; what ends is charged in the same moment."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from libs.contracts.api.budgets import BudgetUse, CreateBudgetBody, UpdateBudgetBody
from libs.contracts.commands.runtime import CreateBudget, DeleteBudget, UpdateBudget
from libs.contracts.identity import Identity
from services.runtime.adapters.postgres.budgets import PostgresBudgetReads
from services.runtime.administration import PriceAdministration
from services.runtime.domain.conversation import ModelAnswer, ToolCall, Usage
from tests.integration.runtime.conftest import StartNode
from tests.support.runtime_nodes import Node, ObedientModel, person

ADA = person("alice")


async def budget(node: Node, *, used: int = 0, caller: Identity = ADA, **body: Any) -> str:
    given = CreateBudgetBody.model_validate({"period": "month", **body})
    return await node.deliver(CreateBudget(budget=given, used=BudgetUse(tokens=used)), caller)


async def state(node: Node, budget_id: str, column: str) -> Any:
    [[value]] = await node.rows(f"SELECT {column} FROM budgets WHERE id = %s", budget_id)
    return value


async def budget_events(node: Node, budget_id: str) -> list[str]:
    rows = await node.rows(
        "SELECT type FROM outbox WHERE subject = %s AND type LIKE '%%budget%%' ORDER BY id", budget_id
    )
    return [row[0].split(".")[3] for row in rows]


async def turn(node: Node, caller: Identity | None = None) -> tuple[str, dict[str, Any]]:
    """The outcome of a turn of 15 tokens in a session of its own."""
    session = await node.create_session(caller)
    return await node.outcome(await node.execute(session, "hello", caller))


async def test_a_turn_is_refused_when_a_budget_is_used_up_and_told_which(node: Node) -> None:
    budget_id = await budget(node, tokens=20)
    assert (await turn(node))[0] == "turn.completed"
    assert (await turn(node))[0] == "turn.completed"
    name, payload = await turn(node)
    assert (name, payload["error"]["type"]) == ("execute_turn.rejected", "budget_exceeded")
    [detail] = payload["error"]["details"]
    facts = detail["budget"]
    assert (facts["budget_id"], facts["unit"], facts["limit"], facts["used"]) == (budget_id, "tokens", 20, 30)
    assert facts["renews_at"].endswith("-01T00:00:00.000000Z")
    assert 0 < payload["error"]["retry_after"] <= 31 * 86_400
    assert await budget_events(node, budget_id) == ["created", "exceeded"]


async def test_a_cost_is_counted_to_the_last_digit(node: Node) -> None:
    await PriceAdministration(node.database).set_price("test:*", Decimal("0.1"), Decimal("0.2"))
    await node.worker.prices.read()
    budget_id = await budget(node, cost="1", period="total")
    await asyncio.gather(*(turn(node) for _ in range(5)))
    assert await state(node, budget_id, "used_cost") == Decimal("0.000010")
    assert await state(node, budget_id, "used_tokens") == 75


@pytest.mark.parametrize(
    ("of", "refused"),
    [
        ({}, {"alice", "bob"}),
        ({"user_id": "bob"}, {"bob"}),
        ({"key_id": "key of alice"}, {"alice"}),
        ({"user_id": "carol"}, set()),
    ],
)
async def test_a_budget_holds_for_its_company_user_or_key(node: Node, of: dict[str, str], refused: set[str]) -> None:
    await budget(node, tokens=10, used=10, **of)
    outcomes = {user: (await turn(node, person(user)))[0] for user in ("alice", "bob")}
    assert {user for user, name in outcomes.items() if name == "execute_turn.rejected"} == refused
    assert (await turn(node, person("alice", "company-2")))[0] == "turn.completed"


@pytest.mark.rule(36)
async def test_64_turns_at_once_overrun_a_budget_by_themselves_alone_on_two_workers(
    node: Node, start_node: StartNode, model: ObedientModel
) -> None:
    other = await start_node()
    budget_id = await budget(node, tokens=16)
    sessions = [await node.create_session() for _ in range(66)]
    model.shut("hold")
    held = [await (node, other)[place % 2].execute(session, "hold") for place, session in enumerate(sessions[:64])]
    # All of them were taken in before the first one has ended.
    model.open("hold")
    await node.ended(*held)
    outcomes = [
        await worker.outcome(await worker.execute(session, "late"))
        for worker, session in zip((node, other), sessions[64:], strict=True)
    ]
    assert [name for name, _ in outcomes] == ["execute_turn.rejected"] * 2
    assert await state(node, budget_id, "used_tokens") == 64 * 15
    assert (await budget_events(node, budget_id)).count("exceeded") == 1


async def test_a_turn_that_was_refused_counts_for_nothing_and_a_larger_budget_lets_it_in(node: Node) -> None:
    budget_id = await budget(node, tokens=15)
    await turn(node)
    assert (await turn(node))[0] == "execute_turn.rejected"
    await node.deliver(UpdateBudget(budget_id=budget_id, changes=UpdateBudgetBody(tokens=16)), ADA)
    assert (await turn(node))[0] == "turn.completed"
    assert (await turn(node))[0] == "execute_turn.rejected"
    assert await budget_events(node, budget_id) == ["created", "exceeded", "updated", "exceeded"]
    await node.deliver(DeleteBudget(budget_id=budget_id), ADA)
    assert (await turn(node))[0] == "turn.completed"


async def test_failed_and_cancelled_turns_are_charged(node: Node, model: ObedientModel) -> None:
    budget_id = await budget(node, tokens=1000)
    session = await node.create_session(agent_type="react_agent", tools=["echo", "pay"])
    model.scripts["fail"] = [_calls("echo"), *[ValueError("broken")] * 3]
    await node.ended(await node.execute(session, "fail"))
    assert await state(node, budget_id, "used_tokens") == 107
    model.scripts["wait"] = [_calls("pay")]
    waiting = await node.execute(session, "wait")
    await node.waiting(waiting)
    await node.cancel(session, waiting)
    assert await state(node, budget_id, "used_tokens") == 214


async def test_a_warning_comes_before_the_end_and_once(node: Node) -> None:
    budget_id = await budget(node, tokens=100, used=40, warning_percent=50)
    await turn(node)
    await turn(node)
    assert await budget_events(node, budget_id) == ["created", "warning"]


async def test_a_new_period_begins_with_nothing(node: Node) -> None:
    budget_id = await budget(node, tokens=15, period="day")
    await turn(node)
    assert (await turn(node))[0] == "execute_turn.rejected"
    await node.database.execute("UPDATE budgets SET started_at = started_at - interval '1 day'")
    assert (await turn(node))[0] == "turn.completed"
    assert await state(node, budget_id, "used_tokens") == 15
    assert (await budget_events(node, budget_id)).count("exceeded") == 2


async def test_budgets_of_others_cannot_be_changed(node: Node) -> None:
    budget_id = await budget(node, tokens=15)
    stranger = person("eve", "company-2")
    name, payload = await node.outcome(await node.deliver(DeleteBudget(budget_id=budget_id), stranger))
    assert (name, payload["error"]["type"]) == ("delete_budget.rejected", "not_found_error")
    assert await state(node, budget_id, "tokens") == 15


async def test_the_list_goes_on_behind_its_last_entry(node: Node) -> None:
    made = [await budget(node, tokens=15) for _ in range(3)]
    reads = PostgresBudgetReads(node.database)
    first = await reads.budgets(ADA.company_id, limit=2, offset=0)
    rest = await reads.budgets(ADA.company_id, limit=2, offset=0, cursor=first.next)
    assert [each.id for each in (*first.budgets, *rest.budgets)] == made[::-1]
    assert (rest.total, rest.total_is_exact, rest.next) == (3, True, None)


def _calls(tool: str) -> ModelAnswer:
    return ModelAnswer("", (ToolCall("call-1", tool, {"text": "1"}),), Usage(100, 7, model_calls=1), "tool_calls")
