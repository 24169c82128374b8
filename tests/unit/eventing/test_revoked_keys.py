"""Keys that were revoked, as the processes that carry out commands know them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope, Event
from libs.contracts.resources.connections import ConnectionDeleted
from libs.contracts.resources.keys import ApiKeyCreated, ApiKeyRevoked
from libs.eventing import RevokedKeys
from tests.support.memory_bus import MemoryBus
from tests.support.waiting import elapse, until

NOON = "2026-03-01T12:00:00.000000Z"
BEFORE, AFTER = "2026-03-01T11:59:59.999999Z", "2026-03-01T12:00:00.000001Z"


async def publish(bus: MemoryBus, event: Event) -> None:
    envelope = Envelope(
        id=new_id(),
        type=event.TYPE,
        source="/aes/gateway",
        subject="key",
        time=NOON,
        correlation_id="c",
        company_id="company-1",
    )
    await bus.append("gateway-events", new_id(), event.encode(), envelope.headers())


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus()


@pytest.fixture
async def revoked(bus: MemoryBus) -> AsyncIterator[RevokedKeys]:
    await publish(bus, ApiKeyRevoked(key_id="old"))
    await publish(bus, ApiKeyCreated(key_id="made", prefix="aes_1", user_id="alice"))
    await bus.append("gateway-events", "x", b"{}", [("ce_id", b"no envelope")])
    keys = RevokedKeys(bus)
    running = asyncio.create_task(keys.run())
    await asyncio.sleep(0)
    yield keys
    running.cancel()


async def test_revocations_from_before_the_start_are_known_when_the_wait_is_over(revoked: RevokedKeys) -> None:
    await revoked.wait()
    assert revoked.loaded
    assert (revoked.was_revoked_before("old", AFTER), revoked.was_revoked_before("old", BEFORE)) == (True, False)
    assert not revoked.was_revoked_before("made", AFTER)


async def test_revocations_become_known_while_it_runs(bus: MemoryBus, revoked: RevokedKeys) -> None:
    await revoked.wait()
    await publish(bus, ApiKeyRevoked(key_id="new"))
    await publish(bus, ConnectionDeleted(connection_id="visitors"))
    await until(lambda: revoked.was_revoked_before("new", AFTER) and revoked.was_revoked_before("visitors", AFTER))


@pytest.mark.virtual_time
async def test_a_topic_that_cannot_be_read_is_waited_for(bus: MemoryBus) -> None:
    bus.down = True
    keys = RevokedKeys(bus)
    running, waiting = asyncio.create_task(keys.run()), asyncio.create_task(keys.wait())
    await elapse(3600)
    assert (keys.loaded, waiting.done()) == (False, False)
    bus.down = False
    await waiting
    assert keys.loaded
    running.cancel()


@pytest.mark.virtual_time
async def test_what_is_known_stays_known_in_an_outage(bus: MemoryBus, revoked: RevokedKeys) -> None:
    await revoked.wait()
    bus.down = True
    await elapse(60)
    assert revoked.loaded
    bus.down = False
    await publish(bus, ApiKeyRevoked(key_id="new"))
    await until(lambda: revoked.was_revoked_before("new", AFTER))
