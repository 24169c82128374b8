"""Turns that somebody begins to follow while they run: their text from its beginning, and what was recorded of them."""

import orjson
import pytest

from libs.contracts.messages import Received, public_name
from libs.contracts.resources.turns import OutputTextDelta, OutputTextDone, WatchedTurn
from services.runtime.adapters.postgres.watched_turns import PostgresWatchedTurns
from services.runtime.domain.conversation import ModelAnswer
from services.runtime.domain.models import ModelRequest, OnText
from services.runtime.use_cases.read_turn_stream import ReadTurnStream
from tests.support.agent_fakes import answering, calling
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until

Deltas = list[tuple[int, int, int, int, str]]


class StammeringModel(ObedientModel):
    """Says the first half of every text, then waits until it may go on with the question; the text in two pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.halfway: list[str] = []

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        answer = await super().answer(request)
        half = len(answer.text) // 2
        if on_text is not None and half:
            on_text(answer.text[:half])
        self.halfway.append(answer.text)
        question = self.asked[-1]
        if question in self._shut_midway:
            await self._gates[f"{question} midway"].wait()
        if on_text is not None and answer.text:
            on_text(answer.text[half:])
        return answer

    _shut_midway: frozenset[str] = frozenset()

    def shut_midway(self, question: str) -> None:
        self._shut_midway |= {question}

    def go_on(self, question: str) -> None:
        self._gates[f"{question} midway"].set()


@pytest.fixture
def model() -> StammeringModel:
    return StammeringModel()


def streams(node: Node) -> ReadTurnStream:
    watched = PostgresWatchedTurns(node.database)
    return ReadTurnStream(watched, node.outbox, "/aes/runtime", node.worker.engine.watch)


def deltas(node: Node, turn_id: str) -> Deltas:
    """Sequence of the event before, attempt, step, offset and text of what the node sent for the turn."""
    return [
        (follows, event.attempt, event.step, event.offset, event.text)
        for (turn, event), follows in zip(node.deltas.sent, node.deltas.follows, strict=True)
        if turn.id == turn_id and isinstance(event, OutputTextDelta)
    ]


async def recorded(node: Node, session: str, turn_id: str, *, after: int = 0) -> list[Received]:
    return list(await streams(node).events(session, turn_id, person(), after=after))


async def names(node: Node, session: str, turn_id: str, *, after: int = 0) -> list[str]:
    found = await recorded(node, session, turn_id, after=after)
    assert [event.envelope.sequence for event in found] == sorted(event.envelope.sequence for event in found)
    return [public_name(event.envelope.type) for event in found]


async def watch(node: Node, session: str, turn_id: str, *, after_step: int = 0) -> WatchedTurn:
    watched = await streams(node).watch(session, turn_id, person(), after_step=after_step)
    assert watched is not None
    return watched


async def forget_events(node: Node, turn_id: str) -> None:
    """As when the outbox has been purged."""
    await node.rows("DELETE FROM outbox WHERE subject = %s RETURNING id", turn_id)


async def test_the_worker_sends_the_text_once_from_its_beginning(start_node, model: StammeringModel) -> None:
    running, asked = await start_node(), await start_node(reconciling=False)
    session = await running.create_session()
    model.shut_midway("hello")
    turn_id = await running.execute(session, "hello", stream=True)
    await until(lambda: model.halfway)
    assert deltas(running, turn_id) == [(1, 1, 1, 0, "re: ")]
    # Any process takes the request; the worker finds it when it next looks.
    watched = await watch(asked, session, turn_id)
    assert (watched.status, watched.sequence, watched.texts) == ("running", 1, {})
    await until(lambda: len(deltas(running, turn_id)) == 2)
    # Its next looks find the same request again.
    for _ in range(3):
        await running.worker.reconciler.reconcile()
    assert deltas(running, turn_id) == [(1, 1, 1, 0, "re: ")] * 2
    model.go_on("hello")
    await running.ended(turn_id)
    assert deltas(running, turn_id)[2:] == [(1, 1, 1, 4, "hello")]
    [length] = [event.length for _, event in running.deltas.sent if isinstance(event, OutputTextDone)]
    assert length == len("re: hello")


async def test_a_turn_begun_without_a_stream_can_be_followed_from_its_next_step(
    node: Node, model: StammeringModel
) -> None:
    session = await node.create_session(agent_type="react_agent", tools=["echo"])
    model.scripts["work"] = [calling(("echo", {"text": "x"}), text="I see."), answering("done")]
    model.shut("work")
    turn_id = await node.execute(session, "work")
    await until(lambda: model.asked)
    await watch(node, session, turn_id)
    model.open("work")
    await node.ended(turn_id)
    # The first answer was asked for in one piece; its text is recorded.
    assert deltas(node, turn_id) == [(3, 1, 2, 0, "do"), (3, 1, 2, 2, "ne")]
    watched = await watch(node, session, turn_id)
    assert (watched.status, watched.sequence, watched.texts) == ("completed", 4, {1: "I see."})
    assert (await watch(node, session, turn_id, after_step=1)).texts == {}
    calls = [payload for name, payload in await node.events(turn_id) if name == "turn.tool_call.started"]
    assert [call["text_length"] for call in calls] == [len("I see.")]


async def test_only_the_first_call_of_a_step_tells_the_length_of_its_text(node: Node, model: StammeringModel) -> None:
    session = await node.create_session(agent_type="react_agent", tools=["echo"])
    two = [("echo", {"text": "x"}), ("echo", {"text": "y"})]
    model.scripts["work"] = [calling(*two, text="Both."), answering("done")]
    turn_id = await node.execute(session, "work", stream=True)
    await node.ended(turn_id)
    calls = [payload for name, payload in await node.events(turn_id) if name == "turn.tool_call.started"]
    assert [call["text_length"] for call in calls] == [5, 0]
    # Started, two calls, two results: the text of the second step comes after the fifth event.
    assert {(follows, step) for follows, _, step, _, _ in deltas(node, turn_id)} == {(1, 1), (5, 2)}


async def test_who_takes_a_watched_turn_over_streams_it(start_node, model: StammeringModel) -> None:
    dead, other = await start_node(), await start_node()
    session = await dead.create_session()
    model.shut_midway("work")
    turn_id = await dead.execute(session, "work")
    await until(lambda: model.halfway)
    await watch(other, session, turn_id)
    await dead.crash()
    await until(lambda: turn_id in other.worker.engine.held)
    model.go_on("work")
    await other.ended(turn_id)
    assert {(follows, attempt) for follows, attempt, *_ in deltas(other, turn_id)} == {(2, 2)}
    assert await names(other, session, turn_id) == ["turn.started", "turn.restarted", "turn.completed"]


async def test_a_queued_turn_that_is_watched_streams_when_it_starts(node: Node, model: StammeringModel) -> None:
    session = await node.create_session()
    model.shut("first")
    first = await node.execute(session, "first")
    second = await node.execute(session, "second")
    assert (await watch(node, session, second)).status == "queued"
    model.open("first")
    await node.ended(first, second)
    assert deltas(node, first) == []
    assert deltas(node, second)[0][:4] == (2, 1, 1, 0)


async def test_the_recorded_events_come_after_a_sequence_and_of_old_turns_the_end_from_the_stored_reply(
    node: Node,
) -> None:
    session = await node.create_session()
    turn_id = await node.execute(session, "hello")
    await node.ended(turn_id)
    await watch(node, session, turn_id)
    assert (await node.turn(turn_id))["watches"] == 0, "a turn that has ended is not marked"
    assert await names(node, session, turn_id) == ["turn.started", "turn.completed"]
    assert await names(node, session, turn_id, after=1) == ["turn.completed"]
    assert await names(node, session, turn_id, after=2) == []
    [_, completed] = await recorded(node, session, turn_id)
    await forget_events(node, turn_id)
    [kept] = await recorded(node, session, turn_id)
    assert (kept.envelope.sequence, kept.payload) == (2, completed.payload)
    assert await names(node, session, turn_id, after=2) == []
    [[stored]] = await node.rows("SELECT reply::text FROM turns WHERE id = %s", turn_id)
    assert not [text for text in ("re: hello", turn_id, "usage") if text in stored]
    turn = await node.reads.turn(session, turn_id, person())
    assert turn.reply.model_dump() == orjson.loads(completed.payload)


async def test_the_end_of_a_turn_that_failed_or_was_cancelled_is_kept_as_well(
    node: Node, model: StammeringModel
) -> None:
    session = await node.create_session()
    model.scripts["fail"] = [RuntimeError("broken")] * 3
    failed = await node.execute(session, "fail")
    await node.ended(failed)
    model.shut("wait")
    cancelled = await node.execute(session, "wait")
    await node.cancel(session, cancelled)
    await node.ended(cancelled)
    for turn_id, end in ((failed, "turn.failed"), (cancelled, "turn.cancelled")):
        assert end in await names(node, session, turn_id)
        await forget_events(node, turn_id)
        assert await names(node, session, turn_id) == [end]
