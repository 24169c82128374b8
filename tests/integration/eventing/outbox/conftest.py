"""Two processes of one owner, with a broker that does as it is told."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.event_owner import EventOwner, event_owner

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
    async with asyncio.timeout(60):
        while await owner.rows(UNPUBLISHED) != [(0,)]:
            await asyncio.sleep(0.05)
