"""Events that could not be published at once are published later, in order, or parked."""

import psycopg
import pytest

from libs.contracts.errors import ErrorKind
from libs.contracts.messages import CommandRejected
from tests.integration.eventing.outbox.conftest import UNPUBLISHED, all_published
from tests.support.event_owner import COMMAND, EventOwner
from tests.support.metrics import metric
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.waiting import until


@pytest.mark.rule(1)
@pytest.mark.crash("runtime")
async def test_the_sweeper_publishes_what_a_crash_left_in_order(owner: EventOwner, other: EventOwner) -> None:
    await other.commit_without_publishing("s", "one", "two")
    await other.commit_without_publishing("t", "three")
    await other.commit_without_publishing("s", "four")
    await owner.sweep()
    assert owner.names() == [], "what is only just committed belongs to its own process"
    await owner.age_everything()
    assert await owner.sweep() == 4
    assert owner.names() == ["one", "two", "three", "four"]
    assert await owner.rows(UNPUBLISHED) == [(0,)]


async def test_unsent_events_of_another_process_go_first(owner: EventOwner, other: EventOwner) -> None:
    await other.commit_without_publishing("s", "first", "second")
    await other.commit_without_publishing("t", "elsewhere")
    owner.run()
    await owner.emit("s", "third")
    await until(lambda: owner.names() == ["first", "second", "third"])
    assert [envelope.sequence for envelope in owner.producer.envelopes] == [1, 2, 3]


async def test_unsent_events_of_another_process_between_own_ones_go_first(owner: EventOwner, other: EventOwner) -> None:
    owner.run()
    await owner.emit("s", "first")
    await owner.emit("s", "second")
    await other.commit_without_publishing("s", "third")
    await owner.emit("s", "fourth")
    await until(lambda: owner.names() == ["first", "second", "third", "fourth"])


async def test_a_subject_with_an_unsent_event_is_deferred_to_the_sweeper(owner: EventOwner) -> None:
    owner.run(sweeping=True)
    owner.producer.down = True
    await owner.emit("s", "first")
    await until(lambda: "s" in owner.publisher._deferred)
    owner.producer.refuses = lambda envelope: envelope.subject == "s"
    owner.producer.down = False
    await owner.emit("s", "second")
    await owner.emit("t", "other")
    await until(lambda: owner.names() == ["other"])

    owner.producer.refuses = lambda _: False
    await until(lambda: owner.names() == ["other", "first", "second"])
    await all_published(owner)
    await until(lambda: not owner.publisher._deferred)
    await owner.emit("s", "third")
    await until(lambda: owner.names()[-1] == "third")


async def test_a_worker_without_a_sweeper_releases_its_deferred_subjects(owner: EventOwner, other: EventOwner) -> None:
    owner.run()
    owner.producer.down = True
    await owner.emit("s", "first")
    await until(lambda: "s" in owner.publisher._deferred)
    owner.producer.down = False
    await other.age_everything()
    other.run(sweeping=True)
    await until(lambda: other.names() == ["first"])
    await until(lambda: not owner.publisher._deferred)
    await owner.emit("s", "second")
    await until(lambda: owner.names() == ["second"])


async def test_an_unacknowledged_event_is_sent_again_before_the_next(owner: EventOwner) -> None:
    owner.run(sweeping=True)
    owner.producer.silent = True
    await owner.emit("s", "first")
    await until(lambda: owner.publisher._in_flight != set())
    owner.producer.lose_what_is_silent()
    await owner.emit("s", "second")
    await until(lambda: owner.names() == ["first", "second"])


async def test_a_commit_of_unknown_outcome_defers_its_subject(
    owner: EventOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.run(sweeping=True)
    original = psycopg.AsyncTransaction.__aexit__

    async def lose_the_answer(transaction, *problem):
        await original(transaction, *problem)
        raise psycopg.OperationalError("the connection broke after the commit")

    monkeypatch.setattr(psycopg.AsyncTransaction, "__aexit__", lose_the_answer)
    with pytest.raises(psycopg.OperationalError):
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
        assert await owner.sweep() == 0
    assert metric("aes_outbox_parked_total", service="notes") == before
    await owner.sweep()
    assert metric("aes_outbox_parked_total", service="notes") == before + 1

    await owner.age_everything()
    assert await owner.sweep() == 1
    (envelope,) = owner.producer.envelopes
    assert envelope.type == TakeNote.rejected_type()
    assert (envelope.causation_id, envelope.subject, envelope.sequence) == ("command-1", "s", 1)
    assert CommandRejected.decode(owner.producer.delivered[0][2]).error.type is ErrorKind.INTERNAL
    outcome = await owner.outbox.outcome("command-1")
    assert outcome is not None
    assert outcome.event_id == envelope.id
    parked = await owner.rows("SELECT attempts, last_error FROM outbox WHERE parked_at IS NOT NULL")
    assert parked == [(10, "the fake broker does not like it")]
    assert await owner.sweep() == 0


async def test_nothing_overtakes_a_refused_row_of_its_subject(owner: EventOwner) -> None:
    refused = [True]
    owner.producer.refuses = lambda envelope: envelope.subject == "s" and envelope.sequence == 1 and refused[0]
    await owner.commit_without_publishing("s", "first", "second")
    await owner.commit_without_publishing("t", "other")
    await owner.age_everything()
    await owner.sweep()
    assert owner.names() == ["other"]
    refused[0] = False
    await owner.sweep()
    assert owner.names() == ["other", "first", "second"]


@pytest.mark.failover("sweeping of an outbox")
async def test_only_one_process_sweeps_a_database(owner: EventOwner, other: EventOwner) -> None:
    for number in range(300):
        await owner.commit_without_publishing(f"s{number}", str(number))
    await owner.age_everything()
    owner.run(publishing=False, sweeping=True)
    other.run(publishing=False, sweeping=True)
    await all_published(owner)
    assert len(owner.names()) + len(other.names()) == 300
    assert sorted(owner.names() + other.names()) == sorted(str(number) for number in range(300))
