"""Events that could not be published at once are published later, in order and under one id, or parked."""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from libs.contracts.errors import ErrorKind, StoreUnavailable
from libs.contracts.messages import CommandRejected
from libs.eventing import Outbox
from libs.eventing._relay import _Held
from libs.eventing.messages import OUTBOX_COLUMNS, read_messages
from tests.integration.eventing.outbox.conftest import UNPUBLISHED, all_published
from tests.support.event_owner import COMMAND, PLAIN, EventOwner
from tests.support.metrics import metric
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.waiting import until

WAITING = f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE published_at IS NULL ORDER BY id"


@pytest.mark.rule(1)
@pytest.mark.crash("runtime")
async def test_another_process_publishes_what_a_crash_left_in_order(owner: EventOwner, other: EventOwner) -> None:
    await other.commit_without_publishing("s", "one", "two")
    await other.commit_without_publishing("t", "three")
    await other.commit_without_publishing("s", "four")
    await owner.relay.sweep()
    assert owner.names() == [], "what is only just committed belongs to its own process"
    await owner.age_everything()
    assert await owner.relay.sweep() == 4
    assert owner.names() == ["one", "two", "three", "four"]
    assert await owner.rows(UNPUBLISHED) == [(0,)]


async def test_unsent_events_of_another_process_go_first(owner: EventOwner, other: EventOwner) -> None:
    await other.commit_without_publishing("s", "first", "second")
    await other.commit_without_publishing("t", "elsewhere")
    owner.run()
    await owner.emit("s", "third")
    await until(lambda: owner.names() == ["first", "second", "third"])
    assert [envelope.sequence for envelope in owner.producer.envelopes] == [1, 2, 3]


async def test_what_follows_an_unsent_event_waits_for_it(owner: EventOwner) -> None:
    owner.run()
    owner.producer.down = True
    await owner.emit("s", "first")
    await until(lambda: "s" in owner.relay.behind)
    owner.producer.refuses = lambda envelope: envelope.subject == "s"
    owner.producer.down = False
    await owner.emit("s", "second")
    await owner.emit("t", "other")
    await until(lambda: owner.names() == ["other"])

    owner.producer.refuses = lambda _: False
    await until(lambda: owner.names() == ["other", "first", "second"])
    await all_published(owner)
    await until(lambda: not owner.relay.behind)
    await owner.emit("s", "third")
    await until(lambda: owner.names()[-1] == "third")


async def test_a_process_goes_on_with_a_subject_that_another_one_has_published(
    owner: EventOwner, other: EventOwner
) -> None:
    owner.run()
    owner.producer.down = True
    await owner.emit("s", "first")
    await until(lambda: "s" in owner.relay.behind)
    await other.age_everything()
    assert await other.relay.sweep() == 1
    owner.producer.down = False
    await until(lambda: not owner.relay.behind)
    await owner.emit("s", "second")
    await until(lambda: owner.names() == ["second"])
    assert other.names() == ["first"]


async def test_new_events_of_a_subject_that_is_behind_go_after_what_waits(owner: EventOwner, other: EventOwner) -> None:
    await other.commit_without_publishing("s", *(f"left {number}" for number in range(600)))
    owner.run()
    emitted = 0
    while len(owner.names()) < 700:
        await owner.emit("s", f"new {emitted}")
        emitted += 1
    await until(lambda: len(set(owner.names())) == 600 + emitted)
    assert [envelope.sequence for envelope in owner.producer.envelopes] == list(range(1, 601 + emitted))
    await until(lambda: not owner.relay.behind)


@pytest.mark.rule(1)
async def test_two_relays_send_each_subject_in_order_and_under_one_id(owner: EventOwner, other: EventOwner) -> None:
    """They share a broker, and each marks nothing until both have sent: all that one sends, the other sends, too."""
    other.relay._producer = owner.producer
    for number in range(40):
        await owner.commit_without_publishing(f"s{number % 4}", str(number))
    await owner.age_everything()
    pages = [await read_messages(process.database, WAITING, ()) for process in (owner, other)]
    await asyncio.gather(
        *(process.relay._send_in_order(page, _Held()) for process, page in zip((owner, other), pages, strict=True))
    )
    assert len(owner.names()) == 80
    first = list({envelope.id: envelope for envelope in owner.producer.envelopes}.values())
    assert len(first) == 40
    for subject in ("s0", "s1", "s2", "s3"):
        assert [envelope.sequence for envelope in first if envelope.subject == subject] == list(range(1, 11))


@pytest.mark.rule(1)
@pytest.mark.crash("runtime")
async def test_what_was_sent_and_not_marked_by_a_killed_process_is_sent_again_under_its_id(
    owner: EventOwner, other: EventOwner
) -> None:
    owner.run()
    await owner.emit("s", "first", "second")
    await until(lambda: len(owner.names()) == 2)
    await owner.kill()
    assert await owner.rows(UNPUBLISHED) == [(2,)], "it was killed before the marks, which are made in bulk"
    await owner.age_everything()
    assert await other.relay.sweep() == 2
    assert [envelope.id for envelope in other.producer.envelopes] == [
        envelope.id for envelope in owner.producer.envelopes
    ]


@pytest.mark.crash("runtime")
async def test_a_lease_whose_holder_was_killed_ends(owner: EventOwner, other: EventOwner) -> None:
    await owner.commit_without_publishing("s", "first")
    await owner.age_everything()
    assert await owner.relay._lease.take()
    assert await other.relay.sweep() == 0, "another process has the lease"
    await owner.rows("UPDATE task_leases SET ends_at = now() - interval '1 second' RETURNING task")
    assert await other.relay.sweep() == 1


async def test_an_aborted_transaction_holds_nothing_up(owner: EventOwner) -> None:
    owner.run()
    await owner.emit("s", "first", context=COMMAND)
    with pytest.raises(psycopg.errors.UniqueViolation):
        await owner.emit("s", "second outcome", context=COMMAND)
    assert not owner.relay.behind
    await owner.emit("s", "second")
    assert not owner.relay.behind, "it is sent directly"
    await until(lambda: owner.names() == ["first", "second"])


async def denied_and_allowed(owner: EventOwner, emit: Callable[[str, str], Awaitable[None]]) -> None:
    """More subjects than a page has rows of a topic without rights, and behind them one that may be sent."""
    owner.producer.denied = {"other-events"}
    async with Outbox(owner.database).transaction(PLAIN) as transaction:
        for number in range(601):
            transaction.emit(NoteTaken(note_id=str(number)), subject=f"s{number}")
    await owner.rows("UPDATE outbox SET topic = 'other-events' RETURNING id")
    await emit("allowed", "allowed")


@pytest.mark.rule(1)
@pytest.mark.parametrize("replaced", [False, True], ids=["at-once", "after-a-reconnection"])
async def test_a_topic_without_rights_holds_up_no_other(owner: EventOwner, replaced: bool) -> None:
    await denied_and_allowed(owner, owner.commit_without_publishing)
    await owner.age_everything()
    if replaced:
        # Its client is made anew after each failure: nothing else is sent in that pass.
        owner.producer.falls_ill = True
        assert await owner.relay.sweep() == 0
        owner.producer.down = False
    assert await owner.relay.sweep() == 1
    assert owner.names() == ["allowed"]
    assert owner.relay.waiting == 601
    assert await owner.rows("SELECT max(attempts) FROM outbox") == [(0,)], "a missing right is no refusal"
    owner.producer.denied = set()
    owner.run()
    await all_published(owner)
    assert len(owner.names()) == 602


async def test_a_topic_without_rights_holds_up_none_of_the_process_itself(owner: EventOwner) -> None:
    owner.run()
    owner.producer.down = True
    await denied_and_allowed(owner, owner.emit)
    await until(lambda: "allowed" in owner.relay.behind)
    await owner.emit("s600", "after it")
    owner.producer.down = False
    await until(lambda: owner.names() == ["allowed"])
    await until(lambda: set(owner.relay.behind) == {"s600"})
    await owner.emit("allowed", "directly")
    await until(lambda: owner.names() == ["allowed", "directly"])
    owner.producer.denied = set()
    await until(lambda: "after it" in owner.names())
    assert owner.names().index("600") < owner.names().index("after it")


async def test_an_unacknowledged_event_is_sent_again_before_the_next(owner: EventOwner) -> None:
    owner.run()
    owner.producer.silent = True
    await owner.emit("s", "first")
    await until(lambda: owner.relay._in_flight)
    owner.producer.lose_what_is_silent()
    await owner.emit("s", "second")
    await until(lambda: owner.names() == ["first", "second"])


async def test_an_event_whose_commit_was_never_answered_goes_before_the_next(
    owner: EventOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.run()
    original = psycopg.AsyncTransaction.__aexit__

    async def lose_the_answer(transaction, *problem):
        await original(transaction, *problem)
        raise psycopg.OperationalError("the connection broke after the commit")

    monkeypatch.setattr(psycopg.AsyncTransaction, "__aexit__", lose_the_answer)
    with pytest.raises(StoreUnavailable):
        await owner.emit("s", "first")
    monkeypatch.undo()
    await owner.emit("s", "second")
    await until(lambda: len(owner.names()) == 2)
    assert owner.names() == ["first", "second"]


@pytest.mark.rule(1)
@pytest.mark.parametrize("later", [False, True], ids=["refused-at-once", "refused-by-the-broker"])
async def test_a_row_refused_ten_times_is_parked_and_its_command_fails(owner: EventOwner, later: bool) -> None:
    owner.producer.refuses = lambda envelope: envelope.type == NoteTaken.TYPE
    owner.producer.refuses_later = later
    await owner.commit_without_publishing("s", "poison", context=COMMAND)
    await owner.age_everything()
    before = metric("aes_outbox_parked_total", service="notes")
    for _ in range(9):
        assert await owner.relay.sweep() == 0
    assert metric("aes_outbox_parked_total", service="notes") == before
    await owner.relay.sweep()
    assert metric("aes_outbox_parked_total", service="notes") == before + 1

    await owner.age_everything()
    assert await owner.relay.sweep() == 1
    (envelope,) = owner.producer.envelopes
    assert envelope.type == TakeNote.rejected_type()
    assert (envelope.causation_id, envelope.subject, envelope.sequence) == ("command-1", "s", 1)
    assert CommandRejected.decode(owner.producer.delivered[0][2]).error.type is ErrorKind.INTERNAL
    outcome = await owner.outbox.outcome("command-1")
    assert outcome.event_id == envelope.id
    parked = await owner.rows("SELECT attempts, last_error FROM outbox WHERE parked_at IS NOT NULL")
    assert parked == [(10, "the fake broker does not like it")]
    assert await owner.relay.sweep() == 0


async def test_nothing_overtakes_a_refused_row_of_its_subject(owner: EventOwner) -> None:
    refused = [True]
    owner.producer.refuses = lambda envelope: envelope.subject == "s" and envelope.sequence == 1 and refused[0]
    await owner.commit_without_publishing("s", "first", "second")
    await owner.commit_without_publishing("t", "other")
    await owner.age_everything()
    await owner.relay.sweep()
    assert owner.names() == ["other"]
    refused[0] = False
    await owner.relay.sweep()
    assert owner.names() == ["other", "first", "second"]


@pytest.mark.failover("sweeping of an outbox")
async def test_only_one_process_sweeps_a_database(owner: EventOwner, other: EventOwner) -> None:
    for number in range(300):
        await owner.commit_without_publishing(f"s{number}", str(number))
    await owner.age_everything()
    owner.run()
    other.run()
    await all_published(owner)
    assert len(owner.names()) + len(other.names()) == 300
    assert sorted(owner.names() + other.names()) == sorted(str(number) for number in range(300))
