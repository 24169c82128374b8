"""Commands are carried out once, with what is prepared outside of their transaction."""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from libs.contracts.errors import Conflict, ErrorKind
from libs.contracts.messages import CommandContext
from libs.eventing import CommandRouter, Transaction
from libs.eventing import _inbox as inbox
from tests.integration.eventing.commands.conftest import COMMAND, notes, rejection, router_of
from tests.support import sample_owner
from tests.support.command_records import ALICE, command_record
from tests.support.event_owner import EventOwner
from tests.support.metrics import metric
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.waiting import until


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


WAIT_FOR_LOCKS = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


async def with_pipeline(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
    async with transaction.connection.pipeline():
        await sample_owner.take_note(transaction, command, context)


@pytest.mark.rule(2)
@pytest.mark.parametrize("handler", [sample_owner.take_note, with_pipeline], ids=["plain", "pipeline"])
async def test_two_replicas_at_once_do_it_once(
    owner: EventOwner, other: EventOwner, handler: Callable[..., Awaitable[None]]
) -> None:
    routers = [router_of(owner), router_of(other)]
    slow = asyncio.Event()
    under_way: list[str] = []

    async def meet(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
        await handler(transaction, command, context)
        under_way.append(command.note_id)
        await slow.wait()

    async def have_met() -> bool:
        """One has done it and the others wait for its end, or have it done as well and don't know yet."""
        waiting = await owner.database.value(WAIT_FOR_LOCKS)
        return len(under_way) + waiting == 4 and under_way != []

    for router in routers:
        router.handle(TakeNote, meet)
    for number in range(5):
        slow.clear()
        under_way.clear()
        record = command_record(TakeNote(note_id=f"note-{number}", text="t"), command_id=f"command-{number}")
        deliveries = [asyncio.create_task(router.deliver(record)) for router in routers for _ in range(2)]
        await until(have_met)
        slow.set()
        await asyncio.gather(*deliveries)
        assert len(await owner.rows("SELECT * FROM notes")) == number + 1
    await until(lambda: len(owner.producer.delivered) + len(other.producer.delivered) >= 20)
    ids = {envelope.id for envelope in owner.producer.envelopes + other.producer.envelopes}
    assert len(ids) == 5


async def test_an_inbox_conflict_shows_inside_a_pipeline(owner: EventOwner) -> None:
    async def enter() -> None:
        async with owner.database.transaction() as connection, connection.pipeline():
            await inbox.enter(connection, "c", "message", ALICE.company_id)

    await enter()
    with pytest.raises(inbox.AlreadyProcessed):
        await enter()


def counts() -> list[float]:
    outcomes = [metric("aes_commands_total", command="notes.take_note", outcome=each) for each in ("done", "repeated")]
    return [*outcomes, metric("aes_inbox_hits_total", consumer="commands")]


@pytest.mark.rule(2)
async def test_a_repeat_sends_the_recorded_outcome_again(owner: EventOwner, router: CommandRouter) -> None:
    record = command_record(COMMAND)
    before = counts()
    await router.deliver(record)
    await until(lambda: len(owner.producer.delivered) == 1)
    await router.deliver(record)
    await router.deliver(record)
    first, second, third = owner.producer.delivered
    assert first == second == third
    assert await notes(owner) == [("note", "buy rope")]
    assert [now - then for now, then in zip(counts(), before, strict=True)] == [1, 2, 2]


async def test_a_refusal_is_recorded_and_repeated(owner: EventOwner, router: CommandRouter) -> None:
    record = command_record(TakeNote(note_id="note", text=""))
    await router.deliver(record)
    assert (await rejection(owner)).error.type is ErrorKind.CONFLICT
    await router.deliver(record)
    assert owner.producer.delivered[0] == owner.producer.delivered[1]
    assert await notes(owner) == []


@pytest.mark.rule(3)
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
    with pytest.raises(RuntimeError, match="didn't emit an outcome"):
        await router.deliver(command_record(COMMAND))
    assert await notes(owner) == []

    router.handle(TakeNote, silent, ends_later=True)
    await router.deliver(command_record(COMMAND))
    assert await notes(owner) == [("n", "t")]


async def test_a_redelivery_is_no_error_for_the_database(owner: EventOwner) -> None:
    async with owner.database.transaction() as connection:
        await inbox.enter(connection, "c", "message", "company-1")
    async with owner.database.transaction() as connection:
        with pytest.raises(inbox.AlreadyProcessed):
            await inbox.enter(connection, "c", "message", "company-1")
        # A statement that failed would have ended the transaction, and PostgreSQL logged it.
        await connection.execute("SELECT 1")


@pytest.mark.rule(16)
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
