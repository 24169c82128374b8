"""Two processes of one owner, with a broker that does as it is told."""

from collections.abc import AsyncIterator

import pytest

from tests.support.event_owner import EventOwner, event_owner
from tests.support.waiting import until

UNPUBLISHED = "SELECT count(*) FROM outbox WHERE published_at IS NULL AND parked_at IS NULL"


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[EventOwner]:
    async with event_owner(database_url) as owner:
        yield owner


@pytest.fixture
async def other(database_url: str, owner: EventOwner) -> AsyncIterator[EventOwner]:
    """Another process of the same owner."""
    async with event_owner(database_url) as other:
        yield other


async def all_published(owner: EventOwner) -> None:
    async def none_waits() -> bool:
        return await owner.rows(UNPUBLISHED) == [(0,)]

    await until(none_waits, pause=0.05)
