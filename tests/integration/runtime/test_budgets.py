"""Usage of turns, whichever way they end, and budgets, from the public API to the turns that they refuse."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.budgets import (
    BudgetUse,
    CreateBudget,
    CreateBudgetBody,
    DeleteBudget,
    UpdateBudget,
    UpdateBudgetBody,
)
from libs.contracts.timestamps import format_time
from services.runtime.administration import PriceAdministration
from services.runtime.domain.conversation import ModelAnswer, ToolCall, Usage
from services.runtime.domain.models import ModelFailed
from tests.integration.runtime.conftest import StartNode
from tests.support.agent_fakes import answering
from tests.support.gateway import Gateway, gateway
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.usage import NOTHING

ADA = person("alice")
MONTH = {"period": "month", "cost": "250"}


async def budget(node: Node, *, used: int = 0, caller: Identity = ADA, **body: Any) -> str:
    given = CreateBudgetBody.model_validate({"period": "month", **body})
    return await node.deliver(CreateBudget(budget=given, used=BudgetUse(tokens=used)), caller)


async def test_what_a_day_took_does_not_count_in_the_next_one(node: Node) -> None:
    """The gateway looked before midnight, and the command is carried out after it."""
    yesterday = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    given = CreateBudgetBody(period="day", tokens=20)
    command = CreateBudget(budget=given, used=BudgetUse(tokens=50), period_started_at=format_time(yesterday))
    await node.deliver(command, ADA)
    assert (await turn(node))[0] == "turn.completed"


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


async def test_a_budget_holds_for_its_company_user_or_key(node: Node) -> None:
    expected: list[tuple[dict[str, str], set[str]]] = [
        ({}, {"alice", "bob"}),
        ({"user_id": "bob"}, {"bob"}),
        ({"key_id": "key of alice"}, {"alice"}),
        ({"user_id": "carol"}, set()),
    ]
    for number, (of, refused) in enumerate(expected):
        people = {user: person(user, f"company of case {number}") for user in ("alice", "bob")}
        await budget(node, tokens=10, used=10, caller=people["alice"], **of)
        outcomes = {user: (await turn(node, caller))[0] for user, caller in people.items()}
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


async def make(public: Gateway, **body: Any) -> dict[str, Any]:
    """The new budget, as the public API shows it."""
    reply = await public.client.post("/budgets/", json=body)
    assert reply.status_code == 201, reply.text
    made: dict[str, Any] = reply.json()
    assert reply.headers["location"] == f"/api/v1/budgets/{made['id']}/"
    return made


async def test_a_budget_is_made_changed_and_deleted(public: Gateway) -> None:
    made = await make(public, **MONTH, description="All agents")
    assert (made["description"], made["cost"], made["tokens"], made["exceeded"]) == ("All agents", "250", None, False)
    path = f"/budgets/{made['id']}/"
    assert (await public.client.get(path)).json() == made
    changed = (await public.client.patch(path, json={"tokens": 5, "warning_percent": None})).json()
    assert changed == {
        **made, "cost": None, "tokens": 5, "warning_percent": None, "updated_at": changed["updated_at"]
    }  # fmt: skip
    assert (await public.client.get("/budgets/")).json()["budgets"] == [changed]
    deleted = await public.client.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    missing = [await public.client.request(method, path) for method in ("GET", "DELETE")]
    missing.append(await public.client.patch(path, json={"tokens": 5}))
    assert [reply.status_code for reply in missing] == [404] * 3


async def test_what_is_no_budget_and_changes_that_make_no_sense_are_refused() -> None:
    bodies: list[dict[str, Any]] = [
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
    ]
    async with gateway() as public:
        for body in bodies:
            assert (await public.client.post("/budgets/", json=body)).status_code == 422, body
        for change in ({}, {"cost": "1", "tokens": 1}, {"cost": None}, {"period": "day"}):
            assert (await public.client.patch(f"/budgets/{new_id()}/", json=change)).status_code == 422, change
        assert public.bus.sent == []


async def test_a_month_begins_with_what_it_has_taken(public: Gateway) -> None:
    public.usage.totals = NOTHING.model_copy(update={"cost": "1.5", "input_tokens": 100, "output_tokens": 20})
    _, key = public.keys.issue()
    assert (await make(public, **MONTH, key_id=key.id))["used"] == {"cost": "1.5", "tokens": 120}
    command = public.bus.sent[-1].command
    assert isinstance(command, CreateBudget)
    assert command.owner_id == key.user_id
    [(span, groups)] = public.usage.asked
    assert (span.key_id, span.user_id, groups) == (key.id, None, ())
    assert span.begin == public.clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)


async def test_a_total_begins_with_nothing(public: Gateway) -> None:
    assert (await make(public, period="total", tokens=1000))["used"] == {"cost": "0", "tokens": 0}
    assert public.usage.asked == []


async def test_a_turn_beyond_a_budget_is_told_which_one_and_when_to_come_back(node: Node, public: Gateway) -> None:
    budget_id = await budget(node, tokens=10, used=10)
    path = f"/runtime/{await node.create_session(ADA)}/execute/"
    for accept in ("application/json", "text/event-stream"):
        reply = await public.client.post(path, json={"content": "hello"}, headers={"accept": accept})
        assert reply.status_code == 429, reply.text
        found = reply.json()["error"]
        [detail] = found["details"]
        assert (found["type"], detail["budget"]["budget_id"]) == ("budget_exceeded", budget_id)
        assert 0 < int(reply.headers["retry-after"]) <= 31 * 86_400


def _calls(tool: str) -> ModelAnswer:
    return ModelAnswer("", (ToolCall("call-1", tool, {"text": "1"}),), Usage(100, 7, model_calls=1), "tool_calls")


CALL = ToolCall("call-1", "echo", {"text": "hi"})
PAY = ToolCall("call-1", "pay", {"text": "100"})


def took(*, text: str = "done", calls: tuple[ToolCall, ...] = (), tokens: tuple[int, int] = (100, 7)) -> ModelAnswer:
    return ModelAnswer(text, calls, Usage(*tokens, model_calls=1), "tool_calls" if calls else "stop")


async def last(node: Node, turn_id: str) -> dict[str, Any]:
    return (await node.outcome(turn_id))[1]


def counts(usage: dict[str, Any]) -> tuple[int, ...]:
    return tuple(usage[name] for name in ("input_tokens", "output_tokens", "model_calls", "tool_calls"))


async def kept(node: Node, turn_id: str) -> dict[str, Any]:
    """The usage in the turn's row."""
    found = (await node.turn(turn_id))["usage"]
    assert isinstance(found, dict)
    return found


async def waiting_turn(node: Node, model: ObedientModel) -> tuple[str, str]:
    """A turn of 100 and 7 tokens that waits for an approval, and its session."""
    session = await node.create_session(agent_type="react_agent", tools=["pay"])
    model.scripts["wait"] = [took(calls=(PAY,))]
    turn_id = await node.execute(session, "wait")
    await node.waiting(turn_id)
    return session, turn_id


async def test_a_completed_turn_has_its_usage_whose_it_is_and_its_exact_cost(node: Node, model: ObedientModel) -> None:
    await PriceAdministration(node.database).set_price("test:*", Decimal("0.3"), Decimal("1.1"))
    await node.worker.prices.read()
    session = await node.create_session(agent_type="react_agent", tools=["echo"])
    model.scripts["work"] = [took(calls=(CALL,)), took(tokens=(200, 13))]
    turn_id = await node.execute(session, "work")
    await node.ended(turn_id)
    event = await last(node, turn_id)
    usage = event["usage"]
    assert counts(usage) == (300, 20, 2, 1)
    assert usage["cost"] == "0.000112"
    assert usage["seconds"] > 0
    caller = person()
    assert (event["model"], event["user_id"], event["key_id"]) == ("test:model", caller.user_id, caller.key_id)
    assert await kept(node, turn_id) == usage


async def test_a_failed_turn_counts_what_was_recorded_before(node: Node, model: ObedientModel) -> None:
    session = await node.create_session(agent_type="react_agent", tools=["echo"])
    model.scripts["fail"] = [took(calls=(CALL,)), ModelFailed("the provider is away")]
    turn_id = await node.execute(session, "fail")
    await node.ended(turn_id)
    event = await last(node, turn_id)
    usage = event["usage"]
    assert counts(usage) == (100, 7, 1, 1)
    assert (event["model"], event["user_id"]) == ("test:model", "alice")
    assert await kept(node, turn_id) == usage


async def test_answers_that_do_not_fit_the_schema_are_counted_the_last_one_too(
    node: Node, model: ObedientModel
) -> None:
    schema = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}
    session = await node.create_session(output_schema=schema)
    model.scripts["fit"] = [took(text="no json")]
    turn_id = await node.execute(session, "fit")
    # It is asked again with a correction, which it repeats: no JSON either.
    await node.ended(turn_id)
    event = await last(node, turn_id)
    assert event["error"]["type"] == "model_error"
    assert event["usage"]["model_calls"] == 3
    each = answering("").usage
    assert event["usage"]["input_tokens"] == 100 + 2 * each.input_tokens


@pytest.mark.rule(36)
async def test_a_cancelled_turn_counts_what_was_recorded_until_then(node: Node, model: ObedientModel) -> None:
    session, turn_id = await waiting_turn(node, model)
    # As if it had waited for an hour, which is no time of work.
    await node.database.execute(
        "UPDATE turns SET started_at = started_at - interval '1 hour', created_at = created_at - interval '1 hour'"
    )
    await node.cancel(session, turn_id)
    event = await last(node, turn_id)
    assert (event["usage"]["input_tokens"], event["usage"]["tool_calls"]) == (100, 0)
    assert event["usage"]["seconds"] < 3600
    assert event["key_id"] == person().key_id
    assert await kept(node, turn_id) == event["usage"]


async def test_turns_of_a_deleted_session_count(node: Node, model: ObedientModel) -> None:
    session, turn_id = await waiting_turn(node, model)
    await node.delete(session)
    event = await last(node, turn_id)
    assert event["reason"] == "session_deleted"
    assert event["usage"]["output_tokens"] == 7
