"""Agents asked by the official client, in both eras of the protocol."""

import asyncio
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from libs.contracts.errors import ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.resources.sessions import CreateSession
from libs.contracts.resources.turns import CancelTurn, CancelTurnAccepted, ExecuteTurn
from tests.support.gateway import Sent, rejected
from tests.support.mcp_client import ERAS, mcp_client, text_of
from tests.support.turn_events import action_of, called, completed, delta, failed, made, required, started
from tests.unit.gateway.mcp.conftest import Served
from tests.unit.gateway.mcp.test_edge import post
from tests.unit.gateway.test_execute import SESSION
from tests.unit.gateway.test_protocols import AGENT

QUESTION = {"message": "Where is my ferry?"}


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_is_asked_and_its_progress_told(served: Served, mode: str) -> None:
    served.turns(lambda sent: [
        started(sent), called(sent), made(sent),
        delta(sent, "Hel", step=2), delta(sent, "lo.", 3, step=2),
        completed(sent),
    ])  # fmt: skip
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, _: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with mcp_client(served.url, served.key, mode=mode) as client:
        # Lists first: the client checks what is structured against the schema.
        await client.list_tools()
        result = await client.call_tool("ask_support", QUESTION, progress_callback=note)
    assert result.is_error is False
    assert {"status": "completed", "reply": "Hello."}.items() <= result.structured_content.items()
    assert result.structured_content["session_id"] in text_of(result)
    assert [message for _, message in told[:3]] == [
        "The agent is working.", "Calling shop.refund.", "shop.refund has finished.",
    ]  # fmt: skip
    assert told[-1][1] == "Hello."
    numbers = [number for number, _ in told]
    assert numbers == sorted(set(numbers))
    opening, turn = served.public.bus.sent
    assert isinstance(opening.command, CreateSession)
    assert isinstance(turn.command, ExecuteTurn)
    assert (turn.command.content, turn.command.request.stream) == (QUESTION["message"], True)


async def test_a_conversation_goes_on_in_its_session_and_with_its_agent_only(served: Served) -> None:
    served.turns(lambda sent: [started(sent), completed(sent)])
    session = {"session_id": SESSION, "config_hash": "0", "created_at": AGENT["created_at"], "status": "active"}
    configuration = {"agent_config": {"name": "Support"}, "agent_id": AGENT["id"]}
    served.answers(f"/internal/sessions/{SESSION}", {**session, **configuration}, upstream="runtime")
    other = new_id()
    served.answers(
        f"/internal/sessions/{other}", {**session, "agent_config": {}, "agent_id": new_id()}, upstream="runtime"
    )
    async with mcp_client(served.url, served.key) as client:
        went_on = await client.call_tool("ask_agent", {**QUESTION, "agent_key": "support", "session_id": SESSION})
        refused = await client.call_tool("ask_support", {**QUESTION, "session_id": other})
        unknown = await client.call_tool("ask_support", {**QUESTION, "session_id": "mine"})
        unread = await client.call_tool("read_session", {"session_id": new_id()})
        for uri in (f"aes://sessions/{new_id()}", f"aes://artifacts/{new_id()}"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
    assert went_on.is_error is False
    assert [type(sent.command) for sent in served.public.bus.sent] == [ExecuteTurn]
    assert refused.is_error is True
    assert "doesn't belong to the agent" in text_of(refused)
    assert text_of(unknown).startswith("not_found_error")
    assert text_of(unread).startswith("not_found_error")
    assert {each.key_id for each in served.public.upstreams.asked_as} == {served.public.key.id}


async def test_a_call_that_is_made_again_with_its_key_is_the_same_turn(served: Served) -> None:
    served.turns(lambda sent: [started(sent), completed(sent)])
    key: Any = {"Idempotency-Key": "turn-1.call-1"}
    async with mcp_client(served.url, served.key) as client:
        first, again = [await client.call_tool("ask_support", QUESTION, meta=key) for _ in range(2)]
        other = await client.call_tool("ask_support", {"message": "Something else"}, meta=key)
    assert first.structured_content == again.structured_content
    assert [type(sent.command) for sent in served.public.bus.sent] == [CreateSession, ExecuteTurn]
    assert text_of(other).startswith("validation_error")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_waiting_turn_is_a_result_that_says_how_to_answer(served: Served, mode: str) -> None:
    served.turns(lambda sent: [started(sent), called(sent), required(sent), required(sent, "c2", "tool_result")])
    async with mcp_client(served.url, served.key, mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool("ask_support", QUESTION)
    answer: Any = result.structured_content
    assert (result.is_error, answer["status"]) == (False, "waiting")
    assert [action["kind"] for action in answer["required_actions"]] == ["approval", "tool_result"]
    turn = f"/api/v1/runtime/{answer['session_id']}/turns/{answer['turn_id']}"
    assert f"{turn}/actions/{action_of('c1')}/" in text_of(result)
    assert '{"decision": "approve"}' in text_of(result)
    assert '{"output": …}' in text_of(result)


async def test_failures_are_errors_of_the_tool_with_what_to_do_about_them(served: Served) -> None:
    async with mcp_client(served.url, served.key) as client:
        served.turns(lambda sent: [started(sent), failed(sent)])
        ill = await client.call_tool("ask_support", QUESTION)
        served.turns(lambda _: [rejected(ErrorKind.RATE_LIMIT, "Too many turns wait.")])
        busy = await client.call_tool("ask_support", QUESTION)
        wrong = await client.call_tool("ask_agent", {"message": " ", "agent_key": "support", "colour": "red"})
        nobody = await client.call_tool("ask_nobody", QUESTION)
    assert all(each.is_error for each in (ill, busy, wrong, nobody))
    assert text_of(ill) == "model_error: the model is ill"
    assert text_of(busy) == "rate_limit_error: Too many turns wait.\nTry again in 2 s."
    assert "- message: " in text_of(wrong)
    assert "- colour: " in text_of(wrong)
    assert text_of(nobody).startswith("not_found_error")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_request_that_its_client_cancels_cancels_the_turn(served: Served, mode: str) -> None:
    def answer(sent: Sent) -> list[Any]:
        if isinstance(sent.command, CancelTurn):
            return [CancelTurnAccepted(session_id=SESSION, turn_id=sent.command.turn_id)]
        return [started(sent)]

    served.turns(answer)
    async with mcp_client(served.url, served.key, mode=mode) as client:
        asking = asyncio.create_task(client.call_tool("ask_support", QUESTION))
        turn = await served.until_sent(ExecuteTurn)
        served.answers(
            f"/internal/turns/{turn.command_id}",
            served.public.bus.state(turn.command_id).model_dump(mode="json"),
            upstream="runtime",
        )
        asking.cancel()
        cancelling = await served.until_sent(CancelTurn)
    assert isinstance(cancelling.command, CancelTurn)
    assert cancelling.command.turn_id == turn.command_id


async def test_any_replica_knows_the_request_that_is_cancelled(served: Served) -> None:
    """The notification of older versions comes to a process that has no more of the request than its record."""

    def answer(sent: Sent) -> list[Any]:
        if isinstance(sent.command, CancelTurn):
            return [CancelTurnAccepted(session_id=SESSION, turn_id=sent.command.turn_id)]
        return [started(sent), called(sent), required(sent)]

    served.turns(answer)
    params = {"name": "ask_support", "arguments": QUESTION}
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}
    for connection in ("mine", "another"):
        reply = await post(served, call, **{"mcp-session-id": connection, "mcp-protocol-version": "2025-06-18"})
        assert '"status":"waiting"' in reply.text
    turns = [sent.command_id for sent in served.public.bus.sent if isinstance(sent.command, ExecuteTurn)]
    for turn in turns:
        state = served.public.bus.state(turn).model_dump(mode="json")
        served.answers(f"/internal/turns/{turn}", state, upstream="runtime")
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    reply = await post(served, cancelled, **{"mcp-session-id": "mine", "mcp-protocol-version": "2025-06-18"})
    assert reply.status_code == 202
    cancelling = (await served.until_sent(CancelTurn)).command
    assert isinstance(cancelling, CancelTurn)
    assert cancelling.turn_id == turns[0]
    again = {**call, "params": {**params, "arguments": {"message": "Something else"}}}
    refused = await post(served, again, **{"mcp-session-id": "mine", "mcp-protocol-version": "2025-06-18"})
    assert "was already used" in refused.text


async def test_a_connection_that_the_service_closes_leaves_the_turn_alone(served: Served) -> None:
    served.turns(lambda sent: [started(sent)])
    async with mcp_client(served.url, served.key) as client:
        asking = asyncio.create_task(client.call_tool("ask_support", QUESTION))
        await served.until_sent(ExecuteTurn)
        await served.public.api.in_flight.drain(0.01)
        with pytest.raises(Exception, match="restarting"):
            await asking
    assert {type(sent.command) for sent in served.public.bus.sent} == {CreateSession, ExecuteTurn}
