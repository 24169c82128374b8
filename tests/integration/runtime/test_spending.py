"""Usage of turns, whichever way they end: in their events, their rows, and at which price."""

from decimal import Decimal
from typing import Any

import pytest

from services.runtime.administration import PriceAdministration
from services.runtime.domain.conversation import ModelAnswer, ToolCall, Usage
from services.runtime.domain.models import ModelFailed
from tests.support.agent_fakes import answering
from tests.support.runtime_nodes import Node, ObedientModel, person

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
