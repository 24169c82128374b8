"""Commands take effect once and end once, on the real database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from libs.contracts.errors import Conflict, ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandRejected
from libs.eventing import CommandContext, CommandRouter, IdentitySigner, PoisonMessage, Transaction
from libs.eventing import _inbox as inbox
from tests.support import sample_owner
from tests.support.bus_members import eventually
from tests.support.command_records import ALICE, MALLORY, SIGNING_KEY, command_record
from tests.support.event_owner import EventOwner, event_owner
from tests.support.sample_owner import NoteTaken, TakeNote

COMMAND = TakeNote(note_id="note", text="buy rope")


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[EventOwner]:
    async with event_owner(database_url) as owner:
        owner.run()
        yield owner


@pytest.fixture
async def other(database_url: str, owner: EventOwner) -> AsyncIterator[EventOwner]:
    async with event_owner(database_url) as other:
        other.run()
        yield other


def router_of(owner: EventOwner) -> CommandRouter:
    return CommandRouter(owner.database, owner.outbox, IdentitySigner(SIGNING_KEY))


@pytest.fixture
def router(owner: EventOwner) -> CommandRouter:
    router = router_of(owner)
    router.handle(TakeNote, sample_owner.take_note)
    return router


async def rejection(owner: EventOwner) -> CommandRejected:
    await eventually(lambda: owner.producer.delivered != [])
    _, _, value, envelope = owner.producer.delivered[-1]
    assert envelope.type == TakeNote.rejected_type()
    return CommandRejected.decode(value)


async def notes(owner: EventOwner) -> list[tuple[str, str]]:
    return [tuple(row) for row in await owner.rows("SELECT id, text FROM notes")]


async def test_inbox_row_effects_and_events_are_one_transaction(owner: EventOwner) -> None:
    router = router_of(owner)

    async def break_off(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
        await sample_owner.take_note(transaction, command, context)
        raise RuntimeError("after everything was written")

    router.handle(TakeNote, break_off)
    record = command_record(COMMAND)
    with pytest.raises(RuntimeError):
        await router.deliver(record)
    assert await notes(owner) == []
    assert await owner.rows("SELECT * FROM inbox") == []
    assert await owner.rows("SELECT * FROM outbox") == []

    router.handle(TakeNote, sample_owner.take_note)
    await router.deliver(record)
    assert await notes(owner) == [("note", "buy rope")]
    assert len(await owner.rows("SELECT * FROM inbox")) == 1


async def with_pipeline(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
    async with transaction.connection.pipeline():
        await sample_owner.take_note(transaction, command, context)


@pytest.mark.parametrize("handler", [sample_owner.take_note, with_pipeline], ids=["plain", "pipeline"])
async def test_two_replicas_at_once_do_it_once(
    owner: EventOwner, other: EventOwner, handler: Callable[..., Awaitable[None]]
) -> None:
    routers = [router_of(owner), router_of(other)]
    slow = asyncio.Event()

    async def meet(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
        await handler(transaction, command, context)
        await slow.wait()

    for router in routers:
        router.handle(TakeNote, meet)
    for number in range(5):
        slow.clear()
        record = command_record(TakeNote(note_id=f"note-{number}", text="t"), command_id=f"command-{number}")
        deliveries = [asyncio.create_task(router.deliver(record)) for router in routers for _ in range(2)]
        await asyncio.sleep(0.1)
        slow.set()
        await asyncio.gather(*deliveries)
        assert len(await owner.rows("SELECT * FROM notes")) == number + 1
    await eventually(lambda: len(owner.producer.delivered) + len(other.producer.delivered) >= 20)
    ids = {envelope.id for envelope in owner.producer.envelopes + other.producer.envelopes}
    assert len(ids) == 5


async def test_an_inbox_conflict_shows_inside_a_pipeline(owner: EventOwner) -> None:
    async def enter() -> None:
        async with owner.database.transaction() as connection, connection.pipeline():
            await inbox.enter(connection, "c", "message", ALICE.company_id)

    await enter()
    with pytest.raises(inbox.AlreadyProcessed):
        await enter()


async def test_a_repeat_sends_the_recorded_outcome_again(owner: EventOwner, router: CommandRouter) -> None:
    record = command_record(COMMAND)
    await router.deliver(record)
    await eventually(lambda: len(owner.producer.delivered) == 1)
    await router.deliver(record)
    await router.deliver(record)
    first, second, third = owner.producer.delivered
    assert first == second == third
    assert await notes(owner) == [("note", "buy rope")]


async def test_a_refusal_is_recorded_and_repeated(owner: EventOwner, router: CommandRouter) -> None:
    record = command_record(TakeNote(note_id="note", text=""))
    await router.deliver(record)
    assert (await rejection(owner)).error.type is ErrorKind.CONFLICT
    await router.deliver(record)
    assert owner.producer.delivered[0] == owner.producer.delivered[1]
    assert await notes(owner) == []


async def test_a_second_outcome_aborts_everything(owner: EventOwner) -> None:
    router = router_of(owner)

    async def twice(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
        await sample_owner.take_note(transaction, command, context)
        transaction.emit(NoteTaken(note_id="again"), subject="again")

    router.handle(TakeNote, twice)
    with pytest.raises(psycopg.errors.UniqueViolation):
        await router.deliver(command_record(COMMAND))
    assert await notes(owner) == []
    assert await owner.rows("SELECT * FROM inbox") == []


async def test_a_handler_without_an_outcome_is_an_error(owner: EventOwner) -> None:
    router = router_of(owner)

    async def silent(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
        await transaction.connection.execute("INSERT INTO notes VALUES ('n', 't')")

    router.handle(TakeNote, silent)
    with pytest.raises(RuntimeError, match="no outcome"):
        await router.deliver(command_record(COMMAND))
    assert await notes(owner) == []

    router.handle(TakeNote, silent, ends_later=True)
    await router.deliver(command_record(COMMAND))
    assert await notes(owner) == [("n", "t")]


@pytest.mark.parametrize("late", [{"expires_in": -1}, {"sent_ago": 3 * 86_400 + 1, "expires_in": 10_000_000}])
async def test_an_expired_command_is_refused(owner: EventOwner, router: CommandRouter, late: dict[str, float]) -> None:
    await router.deliver(command_record(COMMAND, **late))
    assert (await rejection(owner)).error.type is ErrorKind.TIMEOUT
    assert await notes(owner) == []


async def test_a_command_that_was_carried_out_does_not_expire(owner: EventOwner, router: CommandRouter) -> None:
    command_id = new_id()
    await router.deliver(command_record(COMMAND, command_id=command_id))
    await router.deliver(command_record(COMMAND, command_id=command_id, expires_in=-1))
    await eventually(lambda: len(owner.producer.delivered) == 2)
    assert [envelope.type for envelope in owner.producer.envelopes] == [NoteTaken.TYPE] * 2


async def test_a_command_refused_as_expired_is_not_taken_over_later(owner: EventOwner) -> None:
    router = router_of(owner)
    taken: list[str] = []

    async def take(command: TakeNote, context: CommandContext) -> None:
        taken.append(context.command_id)

    router.take_over(TakeNote, take)
    record = command_record(COMMAND, expires_in=-1)
    await router.deliver(record)
    await router.deliver(record)
    assert taken == []
    await eventually(lambda: len(owner.producer.delivered) == 2)
    assert owner.producer.delivered[0] == owner.producer.delivered[1]


async def test_what_was_taken_over_before_its_expiry_is_handed_to_its_handler_again(owner: EventOwner) -> None:
    router = router_of(owner)
    taken: list[str] = []

    async def take(command: TakeNote, context: CommandContext) -> None:
        taken.append(context.command_id)

    async def known(command_id: str, company_id: str) -> bool:
        return command_id in taken and company_id == ALICE.company_id

    router.take_over(TakeNote, take)
    router.lookups.append(known)
    await router.deliver(command_record(COMMAND, command_id="c"))
    await router.deliver(command_record(COMMAND, command_id="c", expires_in=-1))
    assert taken == ["c", "c"]
    assert await owner.rows("SELECT * FROM outbox") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": None},
        {"identity": IdentitySigner("x" * 40).sign(ALICE)},
        {"identity": IdentitySigner(SIGNING_KEY).sign(MALLORY)},
        {"company_id": "company-2"},
        {"expires_at": "soon"},
        {"time": "then"},
    ],
    ids=["unsigned", "forged", "another company's identity", "another company", "expiry", "time"],
)
async def test_what_cannot_be_trusted_or_read_is_poison(
    owner: EventOwner, router: CommandRouter, changes: dict[str, str | None]
) -> None:
    with pytest.raises(PoisonMessage):
        await router.deliver(command_record(COMMAND, **changes))
    assert await owner.rows("SELECT * FROM inbox") == []


async def test_headers_that_are_no_envelope_are_poison(owner: EventOwner, router: CommandRouter) -> None:
    record = replace(command_record(COMMAND), headers=[("ce_id", b"x")])
    with pytest.raises(PoisonMessage, match="missing"):
        await router.deliver(record)
    await router.give_up(record, "unreadable")
    assert await owner.rows("SELECT * FROM outbox") == []


async def test_unknown_types_are_passed_over(owner: EventOwner, router: CommandRouter) -> None:
    await router.deliver(command_record(COMMAND, type="aes.notes.sing_note.v1"))
    assert await owner.rows("SELECT * FROM inbox") == []


async def test_an_undecodable_command_is_poison_and_ends_in_a_rejection(
    owner: EventOwner, router: CommandRouter
) -> None:
    record = command_record(COMMAND, value=b'{"note_id": 7}')
    with pytest.raises(PoisonMessage, match=r"not a aes\.notes\.take_note\.v1"):
        await router.deliver(record)
    await router.give_up(record, "not readable")
    assert (await rejection(owner)).error.type is ErrorKind.INTERNAL
    await router.give_up(record, "not readable")
    assert len(await owner.rows("SELECT * FROM outbox")) == 1


async def test_what_is_done_is_not_given_up(owner: EventOwner, router: CommandRouter) -> None:
    record = command_record(COMMAND)
    await router.deliver(record)
    await router.give_up(record, "too late")
    assert await owner.rows("SELECT type FROM outbox") == [(NoteTaken.TYPE,)]


async def test_preparation_happens_outside_of_any_transaction(owner: EventOwner) -> None:
    router = router_of(owner)
    states: list[list[tuple[str]]] = []

    async def prepare(command: TakeNote, context: CommandContext) -> str:
        rows = await owner.rows(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
            " AND state LIKE 'idle in transaction%%'"
        )
        states.append(list(rows))
        return command.text.upper()

    async def handle(transaction: Transaction, command: TakeNote, context: CommandContext, text: str) -> None:
        assert transaction.connection.info.transaction_status is TransactionStatus.INTRANS
        await sample_owner.take_note(transaction, TakeNote(note_id=command.note_id, text=text), context)

    router.handle_prepared(TakeNote, prepare, handle)
    record = command_record(COMMAND)
    await router.deliver(record)
    await router.deliver(record)
    assert states == [[]]
    assert await notes(owner) == [("note", "BUY ROPE")]


async def test_preparation_past_its_deadline_is_a_rejection(owner: EventOwner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.eventing._commands._PREPARE_SECONDS", 0.05)
    router = router_of(owner)

    async def prepare(command: TakeNote, context: CommandContext) -> None:
        await asyncio.Event().wait()

    async def handle(transaction: Transaction, command: TakeNote, context: CommandContext, _: None) -> None:
        raise AssertionError("not prepared")

    router.handle_prepared(TakeNote, prepare, handle)
    await router.deliver(command_record(COMMAND))
    info = (await rejection(owner)).error
    assert info.type is ErrorKind.UNAVAILABLE
    assert info.retry_after == 2


async def test_a_refusal_in_preparation_is_a_rejection(owner: EventOwner) -> None:
    router = router_of(owner)

    async def prepare(command: TakeNote, context: CommandContext) -> None:
        raise Conflict("no")

    async def handle(transaction: Transaction, command: TakeNote, context: CommandContext, _: None) -> None:
        raise AssertionError("not prepared")

    router.handle_prepared(TakeNote, prepare, handle)
    await router.deliver(command_record(COMMAND))
    assert (await rejection(owner)).error.type is ErrorKind.CONFLICT


async def test_what_was_taken_over_is_not_given_up(owner: EventOwner) -> None:
    router = router_of(owner)

    async def take(command: TakeNote, context: CommandContext) -> None:
        raise RuntimeError("after it was taken over")

    async def known(command_id: str, company_id: str) -> bool:
        return command_id == "taken" and company_id == ALICE.company_id

    router.take_over(TakeNote, take)
    router.lookups.append(known)
    await router.give_up(command_record(COMMAND, command_id="taken"), "failed for too long")
    assert await owner.rows("SELECT * FROM outbox") == []
    await router.give_up(command_record(COMMAND, command_id="unknown"), "failed for too long")
    assert await owner.rows("SELECT type, causation_id FROM outbox") == [(TakeNote.rejected_type(), "unknown")]
