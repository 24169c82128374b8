"""Cancelling turns and deleting sessions, also against what happens at the same moment."""

import asyncio

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.resources.sessions import CreateSession
from tests.integration.runtime.conftest import running_turn, waits_for_a_row
from tests.support.agent_fakes import FakeTool, answering, calling
from tests.support.held_commits import commits_held
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until


async def test_cancelling_a_running_turn_stops_it_and_starts_the_next(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    model.shut("stuck")
    first, second = await node.execute(session, "stuck"), await node.execute(session, "next")
    command = await node.cancel(session, first)
    assert (await node.outcome(command))[0] == "cancel_turn.accepted"
    assert await node.names(first) == ["turn.started", "turn.cancelled"]
    await node.ended(second)
    await until(lambda: first not in node.worker.engine.held)
    assert [text for _, text in await node.history(session)] == ["stuck", "next", "re: next"]


@pytest.mark.rule(8)
async def test_cancelling_a_queued_turn_ends_it_at_once(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    model.shut("stuck")
    first, second = await node.execute(session, "stuck"), await node.execute(session, "never")
    await node.cancel(session, second)
    assert await node.names(second) == ["turn.queued", "turn.cancelled"]
    model.open("stuck")
    await node.ended(first)
    assert model.asked == ["stuck"]


async def test_a_turn_of_another_worker_is_stopped_too(node: Node, start_node, model: ObedientModel) -> None:
    other = await start_node()
    session, turn_id = await running_turn(node, model)
    await other.cancel(session, turn_id)
    await until(lambda: turn_id not in node.worker.engine.held)
    await until(lambda: _released(node, turn_id))


async def _released(node: Node, turn_id: str) -> bool:
    return (await node.turn(turn_id))["worker_id"] is None


async def test_ended_turns_cannot_be_cancelled(node: Node) -> None:
    session = await node.create_session()
    turn_id = await node.execute(session, "hello")
    await node.ended(turn_id)
    name, payload = await node.outcome(await node.cancel(session, turn_id))
    assert (name, payload["error"]["type"]) == ("cancel_turn.rejected", "conflict_error")
    assert (await node.names(turn_id))[-1] == "turn.completed"


async def winner(node: Node, session: str, turn_id: str, cancel: str) -> str:
    """The turn's one terminal status, after checking that the command to cancel it has the matching outcome."""
    [turn] = await node.ended(turn_id)
    outcome, _ = await node.outcome(cancel)
    events = [name for name in await node.names(turn_id) if name in ("turn.completed", "turn.cancelled")]
    assert (turn["status"], outcome, events) in (
        ("completed", "cancel_turn.rejected", ["turn.completed"]),
        ("cancelled", "cancel_turn.accepted", ["turn.cancelled"]),
    )
    replies = [text for role, text in await node.history(session) if role == "assistant"]
    assert len(replies) == (turn["status"] == "completed")
    return str(turn["status"])


async def test_a_turn_that_completes_before_it_is_cancelled_is_completed(
    node: Node, start_node, model: ObedientModel
) -> None:
    other = await start_node()
    session, turn_id = await running_turn(node, model)
    async with commits_held(node.database.url, "turns", "UPDATE", "NEW.status = 'completed'") as held:
        model.open("work")
        await held.reached()
        cancelling = asyncio.create_task(other.cancel(session, turn_id))
        await until(lambda: waits_for_a_row(node))
    assert await winner(node, session, turn_id, await cancelling) == "completed"


async def test_the_next_turn_begins_at_once_when_a_cancellation_comes_before_the_end(
    start_node, model: ObedientModel
) -> None:
    node, other = await start_node(reconciling=False), await start_node(reconciling=False)
    session, turn_id = await running_turn(node, model)
    behind = await node.execute(session, "next")
    async with commits_held(node.database.url, "turns", "UPDATE", "NEW.status = 'cancelled'") as held:
        cancelling = asyncio.create_task(other.cancel(session, turn_id))
        await held.reached()
        model.open("work")
        await until(lambda: waits_for_a_row(node))
    assert (await node.outcome(await cancelling))[0] == "cancel_turn.accepted"
    await node.ended(behind)
    assert await node.names(turn_id) == ["turn.started", "turn.cancelled"]
    assert [text for _, text in await node.history(session)] == ["work", "next", "re: next"]
    assert (await node.turn(behind))["status"] == "completed"


async def test_deleting_a_quiet_session_removes_everything_at_once(node: Node) -> None:
    session = await node.create_session()
    turn_id = await node.execute(session, "hello")
    await node.ended(turn_id)
    command = await node.delete(session)
    assert await node.names(command) == ["session.deleted"]
    for table in ("sessions WHERE id", "turns WHERE session_id", "messages WHERE session_id"):
        assert await node.rows(f"SELECT 1 FROM {table} = %s", session) == []
    assert await node.reads.session(session, person()) is None
    assert await error_type(node, await node.delete(session)) == "not_found_error"
    assert await error_type(node, await node.execute(session, "late")) == "not_found_error"
    again = CreateSession(session_id=session, agent_config={"agent_type": "llm_agent"}, config_hash="h")
    assert (await node.outcome(await node.deliver(again)))[0] == "create_session.rejected"
    assert await node.reads.session(session, person()) is None
    await node.execute(session, "hello", command_id=turn_id)
    assert await node.names(turn_id) == ["turn.started", "turn.completed"], "its turn repeats its outcome"
    assert await node.turn(turn_id) == {}


async def error_type(node: Node, command: str) -> str:
    return str((await node.outcome(command))[1]["error"]["type"])


@pytest.mark.rule(14)
async def test_deleting_waits_for_the_running_execution(node: Node, start_node, model: ObedientModel) -> None:
    """While the other process cannot be told, the session stays in deletion and refuses turns."""
    worker = await start_node(reconciling=False, lease_seconds=30.0)
    session = await node.create_session()
    model.shut("stuck")
    running, waiting = await worker.execute(session, "stuck"), await worker.execute(session, "waiting")
    command = await node.delete(session)
    assert await node.names(running) == ["turn.started", "turn.cancelled"]
    assert await node.names(waiting) == ["turn.queued", "turn.cancelled"]
    seen = await node.reads.session(session, person())
    assert seen.status == "deleting"
    assert await error_type(node, await node.execute(session, "more")) == "conflict_error"
    assert await error_type(node, await node.delete(session)) == "not_found_error"
    await node.worker.reconciler.reconcile()
    assert await node.names(command) == []
    await worker.worker.reconciler.reconcile()
    assert (await node.outcome(command))[0] == "session.deleted"
    await until(lambda: not worker.worker.engine.held)
    assert await node.reads.session(session, person()) is None


async def test_nothing_is_written_after_a_deletion(node: Node, model: ObedientModel, tools: list[FakeTool]) -> None:
    """A tool call that is under way when its session is deleted is stopped, and leaves no trace."""
    session = await node.create_session(agent_type="react_agent", tools=["echo"])
    model.scripts["work"] = [calling(("echo", {"text": "x"})), answering("done")]
    tools[0]._delay = 3600.0
    turn_id = await node.execute(session, "work")
    await until(lambda: tools[0].running)
    command = await node.delete(session)
    await node.outcome(command)
    assert (tools[0].running, tools[0].cancelled) == (0, 1)
    assert await node.rows("SELECT 1 FROM steps WHERE turn_id = %s", turn_id) == []
    assert await node.rows("SELECT 1 FROM messages WHERE session_id = %s", session) == []
    assert (await node.names(turn_id))[-1] == "turn.cancelled"


async def test_deleting_against_executing_leaves_nothing_behind(node: Node, start_node) -> None:
    other = await start_node()
    for _ in range(15):
        session = await node.create_session()
        *turns, command = await asyncio.gather(
            node.execute(session, "a"), other.execute(session, "b"), node.delete(session)
        )
        assert (await node.outcome(command))[0] == "session.deleted"
        outcomes = {(await node.outcome(turn_id))[0] for turn_id in turns}
        assert outcomes <= {"turn.completed", "turn.cancelled", "execute_turn.rejected"}
        assert await node.rows("SELECT 1 FROM turns WHERE session_id = %s", session) == []
    assert await node.rows("SELECT 1 FROM messages") == []


async def test_ids_from_nowhere_are_unknown(node: Node) -> None:
    """The gateway refuses malformed IDs itself, but commands of other producers may contain them."""
    session = await node.create_session()
    for bad in (new_id(), "no id", "nul\x00"):
        for command in (node.cancel(session, bad), node.cancel(bad, new_id()), node.delete(bad)):
            assert await error_type(node, await command) == "not_found_error"


async def test_every_event_of_a_session_names_its_owner(node: Node, model: ObedientModel) -> None:
    """Also when one who writes in the company acts, and when another statement than the admission claims the turn."""
    session = await node.create_session()
    manager = person("manager", "company-1", "company:write")
    model.shut("stuck")
    first, second = [await node.execute(session, text, manager) for text in ("stuck", "next")]
    await node.outcome(await node.cancel(session, first, manager))
    await node.ended(second)
    refused = await node.execute(new_id(), "nobody's", manager)
    await node.outcome(refused)
    await node.outcome(await node.delete(session, manager))

    owners = await node.rows("SELECT type, owner_id FROM outbox WHERE subject <> %s", refused)
    assert {owner for _, owner in owners} == {"alice"}
    assert {"aes.runtime.turn.completed.v1", "aes.runtime.session.deleted.v1"} <= {name for name, _ in owners}
    assert await node.rows("SELECT owner_id FROM outbox WHERE subject = %s", refused) == [("manager",)]
