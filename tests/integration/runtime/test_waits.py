"""Turns that wait for answers from outside: held by nobody, resolved once, and gone on with."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.identity import Identity
from libs.contracts.resources.actions import ActionPage
from services.runtime.adapters.postgres.watched_turns import PostgresWatchedTurns
from services.runtime.domain.conversation import AssistantMessage, JsonObject, ToolMessage
from services.runtime.domain.waits import Answer, LockedWait, kinds
from services.runtime.domain.waits.approval import ApprovalWait
from services.runtime.use_cases import waits
from services.runtime.use_cases.read_turn_stream import ReadTurnStream
from tests.support.agent_fakes import FakeTool, answering, calling
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until

ALICE = person("alice", "company-1", "runtime:execute", "runtime:approve")
CLIENT_TOOL = {"name": "look", "description": "…", "parameters": {"type": "object"}}
PAY = calling(("pay", {"text": "100"}))


AGENT = {"agent_type": "react_agent", "tools": ["echo", "pay"], "client_tools": [CLIENT_TOOL]}


@pytest.fixture
def pay(tools: list[FakeTool]) -> FakeTool:
    return next(tool for tool in tools if tool.definition.name == "pay")


async def waiting_turn(
    node: Node, model: ObedientModel, answer: Any = PAY, question: str = "buy"
) -> tuple[str, str, list[dict[str, Any]]]:
    session = await node.create_session(**AGENT)
    model.scripts[question] = [answer, answering("Done.")]
    turn_id = await node.execute(session, question)
    return session, turn_id, await node.waiting(turn_id)


async def tell(node: Node, session: str, turn: str, action: Any, caller: Identity = ALICE, **answer: Any) -> Any:
    """The outcome of an answer: the turn, or the type of the error."""
    name, payload = await node.outcome(await node.resolve(session, turn, action["id"], caller, **answer))
    return payload["turn"] if name == "resolve_action.accepted" else payload["error"]["type"]


async def approve(node: Node, session: str, turn: str, action: Any, caller: Identity = ALICE) -> Any:
    return await tell(node, session, turn, action, caller, decision="approve")


async def listed(node: Node, caller: Identity = ALICE, **query: Any) -> ActionPage:
    return await node.reads.actions(caller, **{"kind": None, "session_id": None, "limit": 50, "offset": 0, **query})


async def test_a_waiting_turn_holds_nothing_and_says_what_it_needs(node: Node, model: ObedientModel, pay) -> None:
    session, turn_id, [action] = await waiting_turn(node, model)
    row = await node.turn(turn_id)
    assert (row["worker_id"], row["deadline"], row["attempt"], row["lost_attempts"]) == (None, None, 1, 0)
    await until(lambda: not node.worker.engine.present)
    assert pay.contexts == []

    shown = await node.reads.turn(session, turn_id, ALICE)
    [required] = shown.required_actions
    assert shown.status == "waiting"
    assert (required.action_id, required.kind) == (action["id"], "approval")
    assert required.tool_call.model_dump() == {"id": "c1", "name": "pay", "arguments": {"text": "100"}}
    events = await node.events(turn_id)
    assert [name for name, _ in events] == ["turn.started", "turn.tool_call.started", "turn.action_required"]
    assert events[-1][1] == {"session_id": session, "turn_id": turn_id, "step": 1, "action": required.model_dump()}


async def test_an_approved_call_is_made_once_and_the_model_asked_once_with_it(
    node: Node, model: ObedientModel, pay: FakeTool
) -> None:
    session, turn_id, [action] = await waiting_turn(node, model)
    turn = await approve(node, session, turn_id, action)
    assert (turn["status"], turn["required_actions"]) == ("queued", [])
    [row] = await node.ended(turn_id)
    assert (row["status"], row["attempt"], row["lost_attempts"]) == ("completed", 1, 0)
    assert [context.idempotency_key for context in pay.contexts] == [f"{turn_id}.c1"]
    assert model.asked == ["buy", "buy"]
    assert isinstance(model.requests[1].messages[-1], ToolMessage)
    assert await node.names(turn_id) == [
        "turn.started", "turn.tool_call.started", "turn.action_required", "turn.action_resolved",
        "turn.tool_call.completed", "turn.completed",
    ]  # fmt: skip
    resolved = (await node.events(turn_id))[3][1]
    assert (resolved["decision"], resolved["by"], resolved["call_id"]) == ("approve", "alice", "c1")
    assert row["event_sequence"] == 6


async def test_a_denied_call_is_never_made(node: Node, model: ObedientModel, pay: FakeTool) -> None:
    session, turn_id, [action] = await waiting_turn(node, model)
    await tell(node, session, turn_id, action, decision="deny", reason="too much")
    [row] = await node.ended(turn_id)
    assert (row["status"], pay.contexts) == ("completed", [])
    [made] = row["reply"]["response"]["tool_calls"]
    assert made["status"] == "failed"
    assert "denied" in made["output"]
    assert "too much" in made["output"]
    assert (await node.names(turn_id))[3:] == ["turn.action_resolved", "turn.tool_call.failed", "turn.completed"]


async def test_a_turn_with_several_actions_goes_on_after_the_last(
    node: Node, model: ObedientModel, tools: list[FakeTool], pay: FakeTool
) -> None:
    answer = calling(("pay", {"text": "1"}), ("echo", {"text": "hi"}), ("look", {}), ("pay", {"text": "2"}))
    session, turn_id, actions = await waiting_turn(node, model, answer)
    assert len(tools[0].contexts) == 1, "what needs nobody is done before the wait"
    assert [action["call_id"] for action in actions] == ["c1", "c3", "c4"]
    first, look, last = actions

    turn = await approve(node, session, turn_id, last)
    assert turn["status"] == "waiting"
    assert [each["action_id"] for each in turn["required_actions"]] == [first["id"], look["id"]]
    await tell(node, session, turn_id, look, output="a cat")
    assert pay.contexts == []
    await tell(node, session, turn_id, first, decision="deny")

    [row] = await node.ended(turn_id)
    made = row["reply"]["response"]["tool_calls"]
    assert [call["id"] for call in made] == ["c1", "c2", "c3", "c4"]
    assert [call["status"] for call in made] == ["failed", "completed", "completed", "completed"]
    assert [context.call_id for context in pay.contexts] == ["c4"]
    assert len(model.requests) == 2
    told = [message for message in model.requests[1].messages if isinstance(message, ToolMessage)]
    assert len(told) == 4


async def test_an_answer_is_taken_once(node: Node, model: ObedientModel) -> None:
    session, turn_id, [action] = await waiting_turn(node, model)
    assert await tell(node, session, turn_id, action, output="paid") == "validation_error"
    assert (await approve(node, session, turn_id, action))["status"] == "queued"
    await node.ended(turn_id)
    assert (await approve(node, session, turn_id, action))["status"] == "completed"
    assert await tell(node, session, turn_id, action, decision="deny") == "conflict_error"
    assert await tell(node, session, turn_id, action, output="paid") == "validation_error"
    session, turn_id, [action] = await waiting_turn(node, model, calling(("look", {})), "see")
    assert await approve(node, session, turn_id, action) == "validation_error"
    assert (await tell(node, session, turn_id, action, output="a cat"))["status"] == "queued"
    assert await tell(node, session, turn_id, action, output="a dog") == "conflict_error"


@pytest.mark.rule(33)
async def test_of_two_answers_at_the_same_instant_one_wins(node: Node, start_node, model: ObedientModel, pay) -> None:
    other = await start_node()
    decisions = set()
    for number in range(10):
        pay.contexts.clear()
        session, turn_id, [action] = await waiting_turn(node, model, question=f"buy {number}")
        yes, no = await asyncio.gather(
            approve(node, session, turn_id, action),
            tell(other, session, turn_id, action, decision="deny"),
        )
        await node.ended(turn_id)
        assert [yes, no].count("conflict_error") == 1
        assert len(pay.contexts) == (no == "conflict_error")
        decisions.add(no == "conflict_error")
    assert decisions


async def test_whoever_may_see_the_session_may_approve_but_not_answer_for_the_client(node: Node, model) -> None:
    manager = person("bob", "company-1", "runtime:approve", "runtime:execute", "company:read")
    answer = calling(("pay", {"text": "1"}), ("look", {}))
    session, turn_id, [payment, look] = await waiting_turn(node, model, answer)
    unable = person("alice", "company-1", "runtime:execute")
    assert await approve(node, session, turn_id, payment, unable) == "permission_error"
    assert await tell(node, session, turn_id, look, manager, output="a cat") == "not_found_error"
    weak = person("alice", "company-1", "runtime:approve")
    assert await tell(node, session, turn_id, look, weak, output="a cat") == "permission_error"
    assert (await approve(node, session, turn_id, payment, manager))["status"] == "waiting"


async def test_the_sessions_next_message_waits_behind_it_and_other_sessions_do_not(
    node: Node, start_node, model: ObedientModel
) -> None:
    other = await start_node()
    session, turn_id, [action] = await waiting_turn(node, model)
    behind = await other.execute(session, "next")
    elsewhere = await node.create_session()
    await node.ended(await node.execute(elsewhere, "elsewhere"))
    await asyncio.gather(node.worker.reconciler.reconcile(), other.worker.reconciler.reconcile())
    assert (await node.turn(behind))["status"] == "queued"
    [(name, told)] = await node.events(behind)
    shown = await node.reads.turn(session, behind, ALICE)
    assert (name, told["blocked_by"]) == ("turn.queued", shown.blocked_by.model_dump())
    assert shown.blocked_by.turn_id == turn_id
    assert [each.action_id for each in shown.blocked_by.required_actions] == [action["id"]]
    await approve(other, session, turn_id, action)
    await node.ended(turn_id, behind)
    assert [text for _, text in await node.history(session)] == ["buy", "Done.", "next", "re: next"]
    assert isinstance(model.requests[-1].messages[1], AssistantMessage)


async def test_it_counts_for_its_session_but_not_for_its_company(start_node, model: ObedientModel) -> None:
    node = await start_node(max_turns_per_session=1, max_turns_per_company=1)
    session, _, _ = await waiting_turn(node, model)
    _, payload = await node.outcome(await node.execute(session, "next"))
    assert payload["error"]["type"] == "rate_limit_error"
    await node.ended(await node.execute(await node.create_session(), "elsewhere"))


async def test_a_cancelled_wait_ends_and_the_next_turn_begins(node: Node, model: ObedientModel, pay) -> None:
    session, turn_id, [action] = await waiting_turn(node, model)
    behind = await node.execute(session, "next")
    assert (await node.outcome(await node.cancel(session, turn_id)))[0] == "cancel_turn.accepted"
    assert await approve(node, session, turn_id, action) == "conflict_error"
    await node.ended(behind)
    assert (await node.turn(turn_id))["status"] == "cancelled"
    assert (await node.names(turn_id))[-2:] == ["turn.action_required", "turn.cancelled"]
    assert ((await listed(node)).total, pay.contexts) == (0, [])


async def test_a_session_that_waits_can_be_deleted(node: Node, model: ObedientModel) -> None:
    session, turn_id, [action] = await waiting_turn(node, model)
    assert await node.names(await node.delete(session)) == ["session.deleted"]
    assert (await node.names(turn_id))[-1] == "turn.cancelled"
    assert await node.rows("SELECT 1 FROM waits WHERE session_id = %s", session) == []
    assert await approve(node, session, turn_id, action) == "conflict_error"
    stranger = person("alice", "company-2", "runtime:approve")
    assert await approve(node, session, turn_id, action, stranger) == "not_found_error"


async def test_an_action_expires_as_a_failed_call_and_the_turn_goes_on(node: Node, model, pay: FakeTool) -> None:
    answer = calling(("pay", {"text": "1"}), ("look", {}))
    session, turn_id, [payment, look] = await waiting_turn(node, model, answer)
    await node.rows("UPDATE waits SET expires_at = now() - interval '1 s' WHERE id = %s RETURNING 1", payment["id"])
    await until(lambda: _decision(node, payment["id"]))
    assert (await node.turn(turn_id))["status"] == "waiting"
    assert await approve(node, session, turn_id, payment) == "conflict_error"
    await tell(node, session, turn_id, look, output="a cat")
    [row] = await node.ended(turn_id)
    assert [call["status"] for call in row["reply"]["response"]["tool_calls"]] == ["failed", "completed"]
    assert (row["status"], pay.contexts) == ("completed", [])
    resolved = [payload for name, payload in await node.events(turn_id) if name == "turn.action_resolved"]
    assert [(each["decision"], each["by"]) for each in resolved] == [("expired", ""), (None, "alice")]


async def _decision(node: Node, action_id: str) -> Any:
    return (await node.rows("SELECT decision FROM waits WHERE id = %s", action_id))[0][0]


async def test_an_answer_after_the_time_is_refused_before_the_expiry_was_noticed(start_node, model) -> None:
    node = await start_node(reconciling=False)
    session, turn_id, [action] = await waiting_turn(node, model)
    await node.rows("UPDATE waits SET expires_at = now() - interval '1 day' RETURNING 1")
    assert await approve(node, session, turn_id, action) == "conflict_error"
    await node.worker.reconciler.reconcile()
    await node.worker.reconciler.reconcile()
    [row] = await node.ended(turn_id)
    assert row["status"] == "completed"


async def test_a_kind_of_wait_that_becomes_due_is_resolved_by_the_service(
    node: Node, model: ObedientModel, pay: FakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pause(ApprovalWait):
        """Holds calls up until the service next looks; nobody has to approve them."""

        def due_at(self, _payload: JsonObject) -> datetime:
            return datetime.now(UTC)

        def own_answer(self, _wait: LockedWait) -> Answer:
            return Answer(self.name, "approve")

    monkeypatch.setattr(kinds, "KINDS", {"approval": Pause()})
    monkeypatch.setattr(waits, "KINDS", {"approval": Pause()})
    model.scripts["buy"] = [PAY, answering("Done.")]
    turn_id = await node.execute(await node.create_session(**AGENT), "buy")
    [row] = await node.ended(turn_id)
    assert (row["status"], len(pay.contexts)) == ("completed", 1)
    [resolved] = [payload for name, payload in await node.events(turn_id) if name == "turn.action_resolved"]
    assert (resolved["decision"], resolved["by"]) == ("approve", "")


async def test_it_outlives_its_worker_and_has_a_new_deadline_afterwards(
    start_node, model: ObedientModel, pay: FakeTool
) -> None:
    dying = await start_node(turn_deadline_seconds=30.0)
    session, turn_id, [action] = await waiting_turn(dying, model)
    await dying.rows("UPDATE turns SET created_at = created_at - interval '1 day', started_at = now() RETURNING 1")
    await dying.crash()
    node = await start_node(turn_deadline_seconds=30.0)
    await node.worker.reconciler.reconcile()
    model.shut("buy")
    await approve(node, session, turn_id, action)
    await until(lambda: turn_id in node.worker.engine.held)
    row = await node.turn(turn_id)
    assert (row["status"], row["attempt"], row["fence"], row["lost_attempts"]) == ("running", 1, 2, 0)
    assert row["deadline"] > row["started_at"]
    model.open("buy")
    await node.ended(turn_id)
    assert len(pay.contexts) == 1


async def test_open_actions_are_listed_for_those_who_see_their_sessions(node: Node, model: ObedientModel) -> None:
    session, turn_id, [payment] = await waiting_turn(node, model)
    other, _, [look] = await waiting_turn(node, model, calling(("look", {})), "see")

    both = [payment["id"], look["id"]]
    for caller, query, expected in (
        (ALICE, {}, both),
        (person("carol", "company-1", "company:read"), {}, both),
        (ALICE, {"kind": "approval"}, both[:1]),
        (ALICE, {"session_id": other}, both[1:]),
        (ALICE, {"limit": 1, "offset": 1}, both[1:]),
        (person("bob"), {}, []),
        (person("alice", "company-2", "company:read"), {}, []),
    ):
        assert [action.action_id for action in (await listed(node, caller, **query)).actions] == expected
    page = await listed(node, limit=1)
    assert (page.total, page.has_more) == (2, True)
    assert (page.actions[0].session_id, page.actions[0].turn_id) == (session, turn_id)


async def test_a_reader_who_comes_during_the_wait_gets_the_text_after_it(node: Node, model: ObedientModel) -> None:
    session, turn_id, [action] = await waiting_turn(node, model)
    watched = PostgresWatchedTurns(node.database)
    streams = ReadTurnStream(watched, node.outbox, "/aes/runtime", node.worker.engine.watch)
    found = await streams.watch(session, turn_id, ALICE, after_step=0)
    assert found.status == "waiting"
    await approve(node, session, turn_id, action)
    await node.ended(turn_id)
    deltas = [(event.attempt, event.step, event.offset) for _, event in node.deltas.sent if hasattr(event, "offset")]
    assert deltas[0] == (1, 2, 0)
    assert set(node.deltas.follows) == {5}, "after the result of the approved call"
