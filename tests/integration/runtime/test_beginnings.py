"""Sessions that their first turn begins, with a history, unlisted and for a time; turns that end with client calls."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import orjson
import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.resources.messages import HistoryMessage, TextBlock
from libs.contracts.resources.sessions import CreateSession, SessionBeginning
from libs.contracts.resources.turns import ClientCalls, ExecuteTurn, TurnOptions, TurnRequest
from services.runtime.adapters.postgres.session_writer import PostgresSessionWriter
from services.runtime.domain.conversation import AssistantMessage, ToolMessage, UserMessage
from services.runtime.domain.models import NoPrices
from services.runtime.use_cases.retention import ExpireSessions
from tests.integration.runtime.conftest import StartNode
from tests.support.agent_fakes import calling
from tests.support.company_limits import uncounted
from tests.support.runtime_nodes import Node, ObedientModel, person

AGENT = {"name": "Tester", "agent_type": "llm_agent", "llm_config": {"model": "test:model"}}
CLOCK = {"name": "clock", "description": "tells the time", "parameters": {"type": "object"}}


def said(role: str, content: Any, **more: Any) -> HistoryMessage:
    return HistoryMessage.model_validate({"role": role, "content": content, **more})


CALLED = said("assistant", "", tool_calls=[{"id": "c1", "name": "clock", "arguments": {"zone": "UTC"}}])
RESULT = said("tool", "noon", tool_call_id="c1")


def beginning(*messages: HistoryMessage, **changes: Any) -> SessionBeginning:
    fields = {"agent_config": AGENT, "config_hash": "hash", "messages": list(messages), **changes}
    return SessionBeginning.model_validate(fields)


def first(session_id: str, content: Any, begins: SessionBeginning, **request: Any) -> ExecuteTurn:
    return ExecuteTurn(session_id=session_id, content=content, begins=begins, request=TurnRequest(**request))


def texts(model: ObedientModel) -> list[str]:
    return [m.text for m in model.requests[-1].messages if isinstance(m, UserMessage | AssistantMessage)]


async def refusal(node: Node, session: str, begins: SessionBeginning, caller: Any = None, **request: Any) -> Any:
    """The error of a first turn."""
    name, payload = await node.outcome(await node.deliver(first(session, "hello", begins, **request), caller))
    assert name == "execute_turn.rejected"
    return payload["error"]


async def about(node: Node, session: str) -> list[dict[str, Any]]:
    """The payloads of the session's own events."""
    rows = await node.rows("SELECT payload FROM outbox WHERE subject = %s ORDER BY sequence", session)
    return [orjson.loads(row[0]) for row in rows]


async def test_a_first_turn_begins_its_session(node: Node, model: ObedientModel) -> None:
    session = new_id()
    begins = beginning(said("user", "one"), said("assistant", "re: one"), said("user", "two"), listed=False)
    turn = await node.deliver(first(session, "three", begins))
    await node.ended(turn)
    assert texts(model) == ["one", "re: one", "two", "three"]
    [created] = await about(node, session)
    assert (created["owner_id"], created["config_hash"], created["listed"]) == ("alice", "hash", False)
    assert await node.names(turn) == ["turn.started", "turn.completed"]
    assert (await node.turn(turn))["position"] == 2
    history = [("user", "one"), ("assistant", "re: one"), ("user", "two")]
    history += [("user", "three"), ("assistant", "re: three")]
    assert await node.history(session) == history
    await node.ended(await node.execute(session, "four"))
    assert texts(model) == [*(text for _, text in history), "four"]


async def test_another_process_reads_the_history_that_a_session_begins_with(
    start_node: StartNode, model: ObedientModel
) -> None:
    node, other = await start_node(), await start_node()
    session = new_id()
    await node.ended(await node.deliver(first(session, "time?", beginning(said("user", "hello"), CALLED, RESULT))))
    await other.ended(await other.execute(session, "again"))
    kinds = [type(message) for message in model.requests[-1].messages]
    assert kinds == [UserMessage, AssistantMessage, ToolMessage, UserMessage, AssistantMessage, UserMessage]
    called, answered = model.requests[-1].messages[1:3]
    assert isinstance(called, AssistantMessage)
    assert isinstance(answered, ToolMessage)
    assert [(call.id, call.name, call.arguments) for call in called.tool_calls] == [("c1", "clock", {"zone": "UTC"})]
    assert (answered.result.call_id, answered.result.name, answered.result.output) == ("c1", "clock", "noon")
    page = await node.reads.messages(session, person(), limit=9, offset=0)
    assert [message.turn_id is None for message in page.messages] == [True] * 3 + [False] * 4
    fork = await node.fork(session)
    await node.outcome(fork)
    await node.ended(await node.execute(fork, "forked"))
    assert [type(message) for message in model.requests[-1].messages] == [*kinds, AssistantMessage, UserMessage]


async def test_first_turns_at_once_begin_one_session(start_node: StartNode) -> None:
    nodes = [await start_node(), await start_node()]
    session = new_id()
    begins = beginning(said("user", "before"))
    turns = await asyncio.gather(*(nodes[n % 2].deliver(first(session, f"q{n}", begins)) for n in range(6)))
    ended = await nodes[0].ended(*turns)
    assert [turn["status"] for turn in ended] == ["completed"] * 6
    assert sorted(turn["position"] for turn in ended) == [1, 2, 3, 4, 5, 6]
    assert await nodes[0].rows("SELECT count(*) FROM messages WHERE turn_id = ''") == [(1,)]
    assert len(await about(nodes[0], session)) == 1


async def test_a_first_turn_that_is_refused_leaves_no_session(node: Node) -> None:
    session = new_id()
    begins = beginning(agent_config={**AGENT, "llm_config": {"model": "plain:model"}})
    await refusal(node, session, begins, options=TurnOptions(stop=["x"]))
    assert await node.rows("SELECT id FROM sessions WHERE id = %s", session) == []
    assert await about(node, session) == []


async def test_nobody_else_gets_into_a_session_that_is_there(node: Node) -> None:
    session = await node.create_session(person("alice"))
    for stranger in (person("bob"), person("alice", "company-2")):
        assert (await refusal(node, session, beginning(), stranger))["type"] == "not_found_error"
    await node.outcome(await node.delete(session))
    assert (await refusal(node, session, beginning()))["type"] == "not_found_error", "nor does it begin again"


async def test_results_need_a_call(node: Node) -> None:
    command = CreateSession(session_id=new_id(), agent_config=AGENT, config_hash="hash", messages=[RESULT])
    created = await node.deliver(command)
    assert (await node.outcome(created))[1]["error"]["details"][0]["type"] == "unknown_call"
    refused = await refusal(node, new_id(), beginning(), client_calls=ClientCalls(answered=[RESULT]))
    assert refused["details"][0]["loc"] == ["messages", 0, "tool_call_id"]


async def test_a_turn_ends_with_the_calls_of_its_caller_and_the_next_goes_on(node: Node, model: ObedientModel) -> None:
    model.scripts["time?"] = [calling(("clock", {"zone": "UTC"}), text="Let me see.")]
    options = TurnOptions.model_validate({"client_tools": [CLOCK]})
    turn = await node.deliver(first(new_id(), "time?", beginning(), options=options, client_calls=ClientCalls()))
    name, reply = await node.outcome(turn)
    assert (name, reply["finish_reason"]) == ("turn.completed", "tool_calls")
    assert reply["response"]["content"] == "Let me see."
    [call] = reply["response"]["tool_calls"]
    assert (call["name"], call["arguments"], call["status"]) == ("clock", {"zone": "UTC"}, "requested")
    counted = ("input_tokens", "output_tokens", "model_calls", "tool_calls")
    assert [reply["usage"][name] for name in counted] == [10, 5, 1, 0]
    asked = said("assistant", "Let me see.", tool_calls=[{name: call[name] for name in ("id", "name", "arguments")}])
    result = said("tool", [TextBlock(type="text", text="noon")], tool_call_id=call["id"])
    answered = ClientCalls(answered=[asked, result])
    turn = await node.deliver(first(new_id(), "time?", beginning(), options=options, client_calls=answered))
    name, reply = await node.outcome(turn)
    assert (name, reply["response"]["content"]) == ("turn.completed", "re: time?")
    assert "finish_reason" not in reply
    given = model.requests[-1].messages
    assert [type(message) for message in given] == [UserMessage, AssistantMessage, ToolMessage]
    assert isinstance(given[2], ToolMessage)
    assert given[2].result.output == "noon"


async def test_a_turn_that_is_taken_over_keeps_what_was_answered(start_node: StartNode, model: ObedientModel) -> None:
    node = await start_node()
    model.shut("time?")
    answered = ClientCalls(answered=[CALLED, RESULT])
    turn = await node.deliver(first(new_id(), "time?", beginning(), client_calls=answered))
    await node.crash()
    other = await start_node()
    model.open("time?")
    await other.ended(turn)
    assert [type(message) for message in model.requests[-1].messages] == [UserMessage, AssistantMessage, ToolMessage]


async def test_unlisted_sessions_are_found_by_their_id_alone(node: Node) -> None:
    hidden = new_id()
    await node.deliver(CreateSession(session_id=hidden, agent_config=AGENT, config_hash="hash", listed=False))
    shown = await node.create_session()
    page = await node.reads.sessions(person(), limit=9, offset=0)
    assert ([session.session_id for session in page.sessions], page.total) == ([shown], 1)
    assert await node.reads.session(hidden, person()) is not None


@pytest.fixture
def expire(node: Node) -> ExpireSessions:
    open_writer = partial(PostgresSessionWriter, prices=NoPrices(), amounts=uncounted(node.database))
    return ExpireSessions(node.outbox, open_writer, lambda _: None)


async def test_expired_sessions_go_once_their_turns_have_ended(
    node: Node, model: ObedientModel, expire: ExpireSessions
) -> None:
    model.shut("slow")
    kept, idle, busy = new_id(), new_id(), new_id()
    await node.ended(await node.deliver(first(kept, "hello", beginning(expires_after=3600))))
    await node.ended(await node.deliver(first(idle, "hello", beginning(said("user", "before"), expires_after=3600))))
    turn = await node.deliver(first(busy, "slow", beginning(expires_after=3600)))
    assert await expire() == 0
    await node.rows("UPDATE sessions SET expires_at = now() WHERE id = ANY(%s) RETURNING id", [idle, busy])
    assert await expire() == 1
    [event] = await node.rows(
        "SELECT type, owner_id FROM outbox WHERE subject = %s ORDER BY sequence DESC LIMIT 1", idle
    )
    assert event == ("aes.runtime.session.deleted.v1", "alice")
    model.open("slow")
    await node.ended(turn)
    assert await expire() == 1
    assert await node.rows("SELECT id FROM sessions") == [(kept,)]
    assert {row[0] for row in await node.rows("SELECT id FROM session_tombstones")} == {idle, busy}


async def test_a_waiting_turn_ends_with_its_expired_session(
    node: Node, model: ObedientModel, expire: ExpireSessions
) -> None:
    model.scripts["time?"] = [calling(("clock", {}))]
    options = TurnOptions.model_validate({"client_tools": [CLOCK]})
    turn = await node.deliver(first(new_id(), "time?", beginning(expires_after=3600), options=options))
    await node.waiting(turn)
    await node.rows("UPDATE sessions SET expires_at = now() RETURNING id")
    assert await expire() == 1
    name, cancelled = await node.outcome(turn)
    assert (name, cancelled["reason"]) == ("turn.cancelled", "session_expired")
    assert await node.rows("SELECT id FROM turns") == []
