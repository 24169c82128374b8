"""Commands that need remote calls first."""

import asyncio

import pytest
from psycopg.pq import TransactionStatus

from libs.contracts.errors import Conflict, ErrorKind
from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from tests.integration.eventing.commands.conftest import COMMAND, notes, rejection, router_of
from tests.support import sample_owner
from tests.support.command_records import command_record
from tests.support.event_owner import EventOwner
from tests.support.sample_owner import TakeNote


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
