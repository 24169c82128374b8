"""Events are recorded with the state they tell of, numbered by subject, and published at once."""

import asyncio
import hashlib
from datetime import timedelta

import psycopg
import pytest

from libs.contracts.identity import Identity
from libs.contracts.messages import Draft
from libs.contracts.timestamps import parse_time
from tests.integration.eventing.outbox.conftest import all_published
from tests.support.command_records import SIGNER
from tests.support.event_owner import COMMAND, PLAIN, EventOwner
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.waiting import until


async def test_state_and_events_come_together_and_are_published_at_once(owner: EventOwner) -> None:
    owner.run()
    async with owner.outbox.transaction(COMMAND) as transaction:
        await transaction.connection.execute("INSERT INTO notes VALUES ('n', 'text')")
        transaction.emit(NoteTaken(note_id="n"), subject="n")
        assert owner.producer.delivered == []
    await until(lambda: owner.names() == ["n"])
    topic, key, _, envelope = owner.producer.delivered[0]
    assert (topic, key, envelope.subject, envelope.sequence) == ("notes-events", "correlation-1", "n", 1)
    assert (envelope.company_id, envelope.causation_id) == ("company-1", "command-1")
    await all_published(owner)


@pytest.mark.rule(1)
async def test_a_failing_transaction_leaves_neither_state_nor_events(owner: EventOwner) -> None:
    owner.run()

    async def fail() -> None:
        async with owner.outbox.transaction(COMMAND) as transaction:
            await transaction.connection.execute("INSERT INTO notes VALUES ('n', 'text')")
            transaction.emit(NoteTaken(note_id="n"), subject="n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    await owner.emit("m", "m")
    await until(lambda: owner.names() == ["m"])
    assert await owner.rows("SELECT id FROM notes") == []
    assert await owner.rows("SELECT subject FROM outbox") == [("m",)]


async def test_an_event_that_depends_on_what_was_written_is_left_out_with_it(owner: EventOwner) -> None:
    owner.run()
    written = "EXISTS (SELECT FROM notes WHERE id = given.subject AND xmin = pg_current_xact_id()::xid)"
    for _ in range(2):
        async with owner.outbox.pipelined(recording_where=written) as transaction:
            await transaction.connection.execute("INSERT INTO notes VALUES ('n', 'text') ON CONFLICT DO NOTHING")
            for subject in ("n", "m"):
                draft = Draft(NoteTaken(note_id=subject), subject=subject, context=PLAIN, sequence=1)
                transaction.drafts.append(draft)
    await until(lambda: owner.names() == ["n"])
    assert await owner.rows("SELECT subject FROM outbox") == [("n",)]


async def test_an_event_carries_its_owner_however_it_is_sent(owner: EventOwner) -> None:
    async with owner.outbox.transaction(PLAIN) as transaction:
        transaction.emit(NoteTaken(note_id="hers"), subject="n", owner_id="ada")
        transaction.emit(NoteTaken(note_id="everybodys"), subject="n")
    await owner.age_everything()
    assert await owner.relay.sweep() == 2
    assert [envelope.owner_id for *_, envelope in owner.producer.delivered] == ["ada", None]


@pytest.mark.parametrize("text", ["a\0b", "\\u0000 \\\\u0000 \0", '"\\\n\x1f\u2028 مرحبا 😀'])
async def test_any_text_travels_unchanged_at_once_and_swept(owner: EventOwner, text: str) -> None:
    payload = NoteTaken(note_id=text).encode()
    await owner.commit_without_publishing("n", text)
    assert await owner.rows("SELECT payload FROM outbox") == [(payload,)]
    await owner.age_everything()
    assert await owner.relay.sweep() == 1
    assert owner.names() == [text]


async def test_an_event_needs_a_message_context(owner: EventOwner) -> None:
    with pytest.raises(ValueError, match="message context"):
        async with owner.outbox.transaction() as transaction:
            transaction.emit(NoteTaken(note_id="n"), subject="n")


async def test_marks_are_made_in_bulk(owner: EventOwner) -> None:
    await asyncio.gather(*(owner.emit(f"s{number}", "n") for number in range(150)))
    # All are there to be sent: they meet however slowly they came.
    owner.run()
    await until(lambda: len(owner.names()) == 150)
    await all_published(owner)
    times = await owner.rows("SELECT count(DISTINCT published_at) FROM outbox")
    assert times[0][0] < 75


@pytest.mark.rule(19)
async def test_a_large_payload_travels_as_a_reference(owner: EventOwner) -> None:
    owner.run()
    name = "x" * (513 * 1024)
    await owner.emit("s", name)
    await until(lambda: owner.producer.delivered != [])
    _, _, value, envelope = owner.producer.delivered[0]
    assert value == b""
    assert envelope.data_ref == f"/internal/events/{envelope.id}/payload"
    payload = await owner.outbox.payload(envelope.id, "company-1")
    assert payload == NoteTaken(note_id=name).encode()
    assert envelope.data_hash == hashlib.sha256(payload).hexdigest()
    assert await owner.outbox.payload(envelope.id, "company-2") is None


async def test_an_event_whose_commit_is_not_answered_yet_goes_before_the_next(owner: EventOwner) -> None:
    owner.run()
    # A busy server lets go of the subject before it says so: the next event may get ahead in this process.
    await owner.commit_without_publishing("s", "first")
    await owner.emit("s", "second")
    await until(lambda: owner.names() == ["first", "second"])
    owner.outbox.publish(await owner.outbox.events("s", "company-1", after=0))
    await owner.emit("s", "third")
    await until(lambda: "third" in owner.names())
    assert list(dict.fromkeys(owner.names())) == ["first", "second", "third"]


async def test_two_processes_count_a_subject_without_gaps_and_publish_in_order(
    owner: EventOwner, other: EventOwner
) -> None:
    other.producer = owner.producer
    other.relay._producer = owner.producer
    owner.run()
    other.run()
    await asyncio.gather(
        *(process.emit("s", str(number)) for number in range(20) for process in (owner, other)),
    )
    await until(lambda: len({envelope.id for envelope in owner.producer.envelopes}) == 40)
    first_seen = list(dict.fromkeys(envelope.sequence for envelope in owner.producer.envelopes))
    assert first_seen == list(range(1, 41))


async def test_a_sequence_rolled_back_is_given_again(owner: EventOwner) -> None:
    await owner.commit_without_publishing("s", "first")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await owner.emit("s", "an outcome", "another outcome", context=COMMAND)
    await owner.commit_without_publishing("s", "second")
    assert await owner.rows("SELECT sequence FROM outbox ORDER BY id") == [(1,), (2,)]


async def test_events_of_several_subjects_are_numbered_in_the_order_given(owner: EventOwner) -> None:
    await owner.commit_without_publishing("s", "before")
    async with owner.outbox.transaction(PLAIN) as transaction:
        for subject, sequence in (("t", None), ("s", None), ("turn", 7), ("s", None), ("t", None), ("s", None)):
            transaction.emit(NoteTaken(note_id="n"), subject=subject, sequence=sequence)
    assert await owner.rows("SELECT subject, sequence FROM outbox ORDER BY id OFFSET 1") == [
        ("t", 1), ("s", 2), ("turn", 7), ("s", 3), ("t", 2), ("s", 4),
    ]  # fmt: skip
    assert await owner.rows("SELECT subject, last FROM event_sequences ORDER BY 1") == [("s", 4), ("t", 2)]


async def test_transactions_that_number_the_same_subjects_in_another_order_do_not_wait_for_each_other(
    owner: EventOwner,
) -> None:
    async def emit(*subjects: str) -> None:
        async with owner.outbox.transaction(PLAIN) as transaction:
            for subject in subjects:
                transaction.emit(NoteTaken(note_id="n"), subject=subject)

    await asyncio.gather(*(emit(*order) for order in (("s", "t", "u"), ("u", "t", "s")) * 10))
    assert await owner.rows("SELECT last FROM event_sequences") == [(20,)] * 3


@pytest.mark.parametrize("swept", [False, True], ids=["directly", "swept"])
async def test_a_command_is_sent_in_the_name_of_its_caller(owner: EventOwner, swept: bool) -> None:
    caller = Identity(company_id="company-1", user_id="alice", key_id="k", scopes=frozenset({"notes:write"}))
    if not swept:
        owner.run()
    async with owner.outbox.transaction(COMMAND) as transaction:
        command = TakeNote(note_id="n", text="t")
        transaction.send(command, command_id="command-2", subject="n", identity=caller, context=COMMAND)
        transaction.emit(NoteTaken(note_id="n"), subject="other")
        assert owner.producer.delivered == []
    if swept:
        await owner.age_everything()
        assert await owner.relay.sweep() == 2
    await until(lambda: len(owner.producer.delivered) == 2)
    topic, key, value, envelope = owner.producer.delivered[0]
    assert (topic, key, TakeNote.decode(value)) == ("notes-commands", "correlation-1", command)
    assert (envelope.id, envelope.type, envelope.subject) == ("command-2", TakeNote.TYPE, "n")
    assert (envelope.company_id, envelope.causation_id, envelope.sequence) == ("company-1", None, 0)
    assert SIGNER.verify_command(envelope, value) == caller
    assert parse_time(envelope.expires_at or "") - parse_time(envelope.time) == timedelta(days=3)
    assert owner.producer.envelopes[1].identity is None


async def test_the_database_has_no_signature(owner: EventOwner) -> None:
    caller = Identity(company_id="company-1", user_id="alice", key_id="k", scopes=frozenset())
    async with owner.outbox.transaction() as transaction:
        command = TakeNote(note_id="n", text="t")
        transaction.send(command, command_id="command-2", subject="n", identity=caller, context=PLAIN)
    ((row,),) = await owner.rows("SELECT to_jsonb(outbox)::text FROM outbox")
    assert SIGNER.sign(caller) not in row
    assert "alice" in row


async def test_repeating_an_outcome_sends_first_what_waits_before_it(owner: EventOwner, other: EventOwner) -> None:
    await other.commit_without_publishing("s", "before")
    await other.commit_without_publishing("s", "outcome", context=COMMAND)
    outcome = await owner.outbox.outcome("command-1")
    await owner.outbox.republish(outcome)
    assert owner.names() == ["before", "outcome"]
    assert owner.producer.envelopes[1].id == outcome.event_id
