"""A turn from its command to its reply, on the real database."""

import asyncio
from dataclasses import replace

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.resources.turns import ExecuteTurn, TurnRequest
from services.runtime.domain.conversation import AssistantMessage, Citation, ToolMessage, ToolResult
from services.runtime.domain.models import ModelFailed
from tests.support.agent_fakes import answering, calling
from tests.support.memory_bus import MemoryBus
from tests.support.runtime_nodes import Node, ObedientModel, published
from tests.support.waiting import until


async def test_a_plain_turn_is_two_events_and_its_reply_stands_in_the_history(node: Node, bus: MemoryBus) -> None:
    session = await node.create_session()
    turn_id = await node.execute(session, "hello", label="my-label")
    [turn] = await node.ended(turn_id)
    events = await node.events(turn_id)
    assert [name for name, _ in events] == ["turn.started", "turn.completed"]
    reply = events[1][1]
    assert reply["response"]["content"] == "re: hello"
    assert (reply["message_id"], reply["user_message_id"]) == (turn["message_id"], turn["user_message_id"])
    assert (reply["correlation_id"], reply["config_hash"], reply["usage"]["model_calls"]) == ("my-label", "hash", 1)
    assert await node.history(session) == [("user", "hello"), ("assistant", "re: hello")]
    assert await node.rows("SELECT number FROM steps WHERE turn_id = %s", turn_id) == [], "the last answer is the reply"
    await until(lambda: len(published(bus, turn_id)) == 2)
    assert [envelope.sequence for envelope in published(bus, turn_id)] == [1, 2]


async def test_citations_of_documents_are_events_before_the_completion(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    chunks = (
        Citation("The tower is white.", 0.9, "kb", "Towers", "f1", "tower.md", page=2),
        Citation("Said in the conversation itself."),
        Citation("It was built in 1901.", 0.4, "kb", "Towers", "f2", "years.csv", row=7),
    )
    model.scripts["which?"] = [replace(answering("White."), citations=chunks)]
    turn_id = await node.execute(session, "which?")
    await node.ended(turn_id)
    events = await node.events(turn_id)
    names = ["turn.started", "turn.citation.added", "turn.citation.added", "turn.completed"]
    assert [name for name, _ in events] == names
    cited = [[p["citation"][key] for key in ("file_name", "page", "row")] for _, p in events[1:3]]
    assert cited == [["tower.md", 2, None], ["years.csv", None, 7]]
    assert len(events[3][1]["response"]["citations"]) == 3
    following = await node.execute(session, "more?")
    await node.ended(following)
    assert await node.names(following) == ["turn.started", "turn.completed"]


async def test_turns_of_one_session_run_one_after_the_other_in_order(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    model.shut("first")
    turns = [await node.execute(session, text) for text in ("first", "second", "third")]
    assert [(await node.turn(turn))["status"] for turn in turns] == ["running", "queued", "queued"]
    assert model.asked in ([], ["first"])
    model.open("first")
    await node.ended(*turns)
    assert model.asked == ["first", "second", "third"]
    assert await node.names(turns[1]) == ["turn.queued", "turn.started", "turn.completed"]
    texts = [text for _, text in await node.history(session)]
    assert texts == ["first", "re: first", "second", "re: second", "third", "re: third"]


async def test_later_turns_are_given_earlier_calls_by_any_process(node: Node, start_node, model: ObedientModel) -> None:
    session = await node.create_session(agent_type="react_agent", tools=["echo"])
    asking = calling(("echo", {"text": "x"}), ("echo", {"text": "y"}), text="Let me see.")
    first = replace(asking.tool_calls[0], provider_data={"sig": "s"}, arguments={"text": "x"})
    asking = replace(asking, tool_calls=(first, *asking.tool_calls[1:]), provider_data={"model": "m", "n": 2**70})
    model.scripts["one"] = [asking, answering("both")]
    await node.ended(await node.execute(session, "one"))
    await node.ended(await node.execute(session, "two"))
    other = await start_node()
    await other.ended(await other.execute(await other.fork(session), "two"))
    here, elsewhere = model.requests[-2:]
    assert elsewhere.messages[: len(here.messages)] == here.messages
    assert here.messages[1:-1] == (
        AssistantMessage("Let me see.", asking.tool_calls, {"model": "m", "n": 2**70}),
        ToolMessage(ToolResult("c1", "echo", "x")),
        ToolMessage(ToolResult("c2", "echo", "y")),
        AssistantMessage("both"),
    )


async def test_a_history_that_must_be_whole_is_not_cut(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    model.scripts["one"] = [answering("x" * 200_000)]
    await node.ended(await node.execute(session, "one"))
    turn = await node.deliver(ExecuteTurn(session_id=session, content="two", request=TurnRequest(whole_history=True)))
    await node.ended(turn)
    [detail] = (await node.events(turn))[-1][1]["error"]["details"]
    assert detail["type"] == "context_length_exceeded"
    turn = await node.execute(session, "two")
    await node.ended(turn)
    [warning] = (await node.events(turn))[-1][1]["warnings"]
    assert "were omitted" in warning


async def test_a_message_that_the_provider_refused_is_not_told_to_it_again(
    node: Node, start_node, model: ObedientModel
) -> None:
    session = await node.create_session()
    model.scripts["bad"] = [ModelFailed("the provider refused the message", 400)]
    failed = await node.execute(session, "bad")
    await node.ended(failed)
    name, payload = (await node.events(failed))[-1]
    assert (name, payload["error"]["type"]) == ("turn.failed", "model_error")
    await node.ended(await node.execute(session, "good"))
    assert [message.text for message in model.requests[-1].messages] == ["good"]
    other = await start_node()
    await other.ended(await other.execute(session, "fine"))
    assert [message.text for message in model.requests[-1].messages] == ["good", "re: good", "fine"]
    assert [text for _, text in await node.history(session)] == ["bad", "good", "re: good", "fine", "re: fine"]
    await node.ended(await node.execute(session, "again"))
    told = [message.text for message in model.requests[-1].messages]
    assert told == ["good", "re: good", "fine", "re: fine", "again"], "what another process has added is read"


async def test_a_bug_fails_the_turn_and_the_next_one_runs(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    model.scripts["boom"] = [KeyError("a bug")] * 3
    first, second = await node.execute(session, "boom"), await node.execute(session, "after")
    [turn, _] = await node.ended(first, second)
    assert (turn["status"], turn["error"]["type"], turn["worker_id"]) == ("failed", "internal_error", None)
    assert [name for name, _ in await node.events(first)][-3:] == ["turn.restarted", "turn.restarted", "turn.failed"]
    [failure] = await node.outbox.failures(None, 10)
    assert (failure["subject"], failure["type"]) == (first, "aes.runtime.turn.failed.v1")
    assert failure["cause"].startswith("KeyError at services.runtime.")
    assert "a bug" not in failure["cause"]


async def test_fifty_sessions_run_side_by_side(node: Node, model: ObedientModel) -> None:
    sessions = [await node.create_session() for _ in range(50)]
    model.shut("all")
    turns = await asyncio.gather(*[node.execute(session, "all") for session in sessions])
    await until(lambda: len(model.asked) == 50)
    model.open("all")
    assert {turn["status"] for turn in await node.ended(*turns)} == {"completed"}


async def test_a_worker_at_its_capacity_leaves_turns_to_others(node: Node, start_node, model: ObedientModel) -> None:
    small = await start_node(max_running_turns=1)
    node.database.held = asyncio.Event()  # the other process looks away
    sessions = [await small.create_session() for _ in range(2)]
    model.shut("long")
    first = await small.execute(sessions[0], "long")
    second = await small.execute(sessions[1], "short")
    assert (await small.turn(second))["status"] == "queued"
    node.database.held.set()
    await small.ended(second)
    assert (await small.turn(first))["status"] == "running"
    model.open("long")
    await small.ended(first)


async def test_text_with_nul_characters_is_taken_and_answered(node: Node) -> None:
    session = await node.create_session()
    turn_id = await node.execute(session, "a\x00b")
    [turn] = await node.ended(turn_id)
    assert turn["status"] == "completed"
    assert (await node.history(session))[0] == ("user", "a\N{REPLACEMENT CHARACTER}b")


@pytest.mark.rule(11)
async def test_a_turn_past_its_deadline_fails(start_node, model: ObedientModel) -> None:
    node = await start_node(turn_deadline_seconds=0.2, reconciling=False)
    session = await node.create_session()
    model.shut("slow")
    turn_id = await node.execute(session, "slow")
    [turn] = await node.ended(turn_id)
    assert (turn["status"], turn["error"]["type"]) == ("failed", "timeout_error")
    assert await node.names(turn_id) == ["turn.started", "turn.failed"]


async def test_a_redelivery_while_it_runs_and_after_its_end_changes_nothing(
    node: Node, bus: MemoryBus, model: ObedientModel
) -> None:
    session = await node.create_session()
    model.shut("once")
    turn_id = await node.execute(session, "once")
    await node.execute(session, "once", command_id=turn_id)
    model.open("once")
    await node.ended(turn_id)
    await until(lambda: len(published(bus, turn_id)) >= 2)
    await node.execute(session, "once", command_id=turn_id)
    await until(lambda: len(published(bus, turn_id)) >= 3)
    sent = published(bus, turn_id)
    assert len({envelope.id for envelope in sent}) == 2, "the outcome is told again under its own id"
    assert model.asked == ["once"]
    assert len(await node.history(session)) == 2


@pytest.mark.rule(7)
async def test_two_deliveries_at_once_on_two_workers_make_one_turn(
    node: Node, start_node, model: ObedientModel
) -> None:
    other = await start_node()
    session = await node.create_session()
    for _ in range(10):
        command_id = new_id()
        await asyncio.gather(
            *[who.execute(session, "race", command_id=command_id) for who in (node, other, node, other)]
        )
        await node.ended(command_id)
        assert (await node.names(command_id)).count("turn.started") == 1
    assert len(model.asked) == 10
    assert len(await node.history(session)) == 20
