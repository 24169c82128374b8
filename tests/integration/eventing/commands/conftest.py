"""An owner of notes on the real database, and another process of it."""

from collections.abc import AsyncIterator

import pytest

from libs.contracts.messages import CommandRejected
from libs.eventing import CommandRouter, IdentitySigner, RevokedKeys
from tests.support import sample_owner
from tests.support.command_records import SIGNING_KEY
from tests.support.event_owner import EventOwner, event_owner
from tests.support.sample_owner import TakeNote
from tests.support.waiting import until

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


def router_of(owner: EventOwner, revoked: RevokedKeys | None = None) -> CommandRouter:
    return CommandRouter(owner.database, owner.outbox, IdentitySigner(SIGNING_KEY), revoked)


@pytest.fixture
def router(owner: EventOwner) -> CommandRouter:
    router = router_of(owner)
    router.handle(TakeNote, sample_owner.take_note)
    return router


async def rejection(owner: EventOwner) -> CommandRejected:
    await until(lambda: owner.producer.delivered != [])
    _, _, value, envelope = owner.producer.delivered[-1]
    assert envelope.type == TakeNote.rejected_type()
    return CommandRejected.decode(value)


async def notes(owner: EventOwner) -> list[tuple[str, str]]:
    return [tuple(row) for row in await owner.rows("SELECT id, text FROM notes")]
