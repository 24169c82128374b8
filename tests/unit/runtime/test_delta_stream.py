"""Deltas of answers: joined, numbered, and published on the bus."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.resources.turns import OutputTextDelta, OutputTextDone, TurnStarted
from libs.eventing import IdentitySigner, Outbox, Relay
from libs.eventing.messages import OutboxMessage
from services.runtime.adapters.bus_deltas import BusDeltas
from services.runtime.use_cases.engine.commits import ClaimFuture, DeltaStream, TurnWatch
from tests.support.fake_producer import FakeProducer
from tests.support.outbox_table import FakeOutboxTable
from tests.support.runtime_nodes import SIGNING_KEY, DeltaLog
from tests.support.runtime_turns import claimed_turn
from tests.support.waiting import elapse, until

pytestmark = pytest.mark.virtual_time


def texts(log: DeltaLog) -> list[tuple[int, int, str]]:
    return [(e.step, e.offset, e.text) for _, e in log.sent if isinstance(e, OutputTextDelta)]


def streaming(claim: ClaimFuture | None = None) -> tuple[DeltaLog, DeltaStream]:
    log = DeltaLog()
    return log, DeltaStream(claimed_turn(attempt=2), log, claim or ClaimFuture.confirmed())


async def test_the_first_piece_goes_at_once_and_the_rest_gathers() -> None:
    log, stream = streaming()
    stream.add("one ", 1, 1)
    assert texts(log) == [(1, 0, "one ")]
    stream.add("two ", 1, 1)
    stream.add("three", 1, 1)
    assert len(log.sent) == 1
    await until(lambda: len(log.sent) == 2)
    assert texts(log) == [(1, 0, "one "), (1, 4, "two three")]
    assert {event.attempt for _, event in log.sent} == {2}


async def test_a_finished_step_says_its_length_and_the_next_counts_from_zero() -> None:
    log, stream = streaming()
    for piece, step in (("ab", 1), ("cd", 1), ("xyz", 2)):
        stream.add(piece, step, 1)
    stream.finish()
    assert texts(log) == [(1, 0, "ab"), (1, 2, "cd"), (2, 0, "xyz")]
    done = [(event.step, event.length) for _, event in log.sent if isinstance(event, OutputTextDone)]
    assert done == [(1, 4), (2, 3)]


async def test_silence_sends_nothing_and_a_stopped_stream_nothing_later() -> None:
    log, stream = streaming()
    stream.add("", 1, 1)
    stream.finish()
    assert log.sent == []
    log, stream = streaming()
    stream.add("a", 1, 1)
    stream.add("b", 1, 1)
    stream.stop_timer()
    await elapse(60)
    assert texts(log) == [(1, 0, "a")]


async def test_text_is_sent_again_from_the_beginning_of_its_step() -> None:
    log, stream = streaming()
    stream.send_again()
    assert log.sent == []
    for piece, step, follows in (("before", 1, 1), ("one ", 2, 3), ("two ", 2, 3), ("three", 2, 3)):
        stream.add(piece, step, follows)
    stream.send_again()
    assert texts(log)[-3:] == [(2, 0, "one "), (2, 4, "two three"), (2, 0, "one two three")]
    assert log.follows[-3:] == [3, 3, 3]
    stream.finish()
    sent = len(log.sent)
    stream.send_again()
    [(_, again), (_, done)] = log.sent[sent:]
    assert isinstance(again, OutputTextDelta)
    assert isinstance(done, OutputTextDone)
    assert (again.text, done.length) == ("one two three", 13)


async def test_what_is_said_before_the_claim_is_committed_goes_with_the_commit() -> None:
    claim = ClaimFuture()
    log, stream = streaming(claim)
    stream.add("one ", 1, 1)
    stream.add("two ", 1, 1)
    stream.send_again()
    assert log.sent == []
    claim.settle(committed=True)
    await until(lambda: log.sent)
    stream.add("three", 1, 1)
    stream.finish()
    assert texts(log) == [(1, 0, "one two "), (1, 8, "three")]


async def test_a_stream_that_was_stopped_before_the_commit_stays_silent() -> None:
    claim = ClaimFuture()
    log, stream = streaming(claim)
    stream.add("one", 1, 1)
    stream.stop_timer()
    claim.settle(committed=True)
    await elapse(60)
    assert log.sent == []


async def test_a_long_text_is_sent_in_pieces_that_the_broker_takes() -> None:
    log, stream = streaming()
    whole = "\N{GRINNING FACE}\x01" * 60_000
    stream.add(whole, 1, 1)
    stream.send_again()
    stream.stop_timer()
    assert [offset for _, offset, _ in texts(log)] == [0, 50_000, 100_000] * 2
    assert "".join(piece for _, _, piece in texts(log)) == whole * 2
    assert max(len(event.encode()) for _, event in log.sent) < 512 * 1024


async def test_nul_is_replaced_as_in_the_stored_reply() -> None:
    log, stream = streaming()
    stream.add("a\x00b", 1, 1)
    stream.stop_timer()
    assert texts(log) == [(1, 0, "a\N{REPLACEMENT CHARACTER}b")]


def test_a_request_for_text_counts_once() -> None:
    watch, asked = TurnWatch(wanted=False), []
    watch.on_request = lambda: asked.append(watch.wanted)
    for watches in (0, 1, 1, 3, 2):
        watch.request(watches)
    assert asked == [True, True]


def started(turn_id: str) -> OutboxMessage:
    event = TurnStarted(session_id="session", turn_id=turn_id, attempt=1, user_message_id="m")
    fields: dict[str, Any] = {
        "id": 1, "created_at": datetime.now(UTC), "event_id": "e", "type": event.TYPE, "topic": event.TOPIC.name,
        "subject": turn_id, "sequence": 1, "company_id": "company", "correlation_id": "label",
        "payload": event.encode(),
    }  # fmt: skip
    return OutboxMessage(**dict.fromkeys(OutboxMessage.__dataclass_fields__) | fields)


async def test_an_event_that_lingers_goes_before_the_text_that_follows_it() -> None:
    producer, turn = FakeProducer(), claimed_turn()
    relay = Relay(FakeOutboxTable(), producer, IdentitySigner(SIGNING_KEY), source="/aes/runtime")  # type: ignore[arg-type]
    outbox = Outbox(None, relay)  # type: ignore[arg-type]
    deltas = BusDeltas(producer, outbox, source="/aes/runtime")
    running = [asyncio.create_task(each.run()) for each in (relay, deltas)]
    outbox.publish([started(turn.id)])
    await elapse(Relay.LINGER_SECONDS / 2)
    assert producer.delivered == []
    text = OutputTextDelta(session_id="session", turn_id=turn.id, attempt=1, step=1, offset=0, text="Hi")
    deltas.send(turn, text, 1)
    await elapse(Relay.LINGER_SECONDS / 4)
    sent = [(envelope.type, envelope.sequence) for envelope in producer.envelopes]
    assert sent == [(TurnStarted.TYPE, 1), (OutputTextDelta.TYPE, 1)]
    for task in running:
        task.cancel()
