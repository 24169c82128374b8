"""Fetches of readers to which nothing comes."""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka.client import ConnectionGroup

from libs.eventing._kafka_long_fetches import LongFetches

_USUAL: Final = (500, 1000)
_LONG: Final = (10_000, 1)


class Connection:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Client:
    """Stands for the client and its fetcher, whose fetches end when they are cancelled."""

    def __init__(self) -> None:
        self.now = 100.0
        self.connections = {node: Connection() for node in (1, 2)}
        self._client = SimpleNamespace(
            _conns={(node, ConnectionGroup.DEFAULT): each for node, each in self.connections.items()}
        )
        self._fetcher: Any = SimpleNamespace(
            _fetch_max_wait_ms=_USUAL[0], _fetch_min_bytes=_USUAL[1], _proc_fetch_request=self._proc_fetch_request
        )
        self.ends = asyncio.Event()
        self.fails = False
        self._coordinator = SimpleNamespace(coordinator_dead=lambda: None)
        self.fetches = LongFetches(self, 10.0, clock=lambda: self.now)  # type: ignore[arg-type]
        self.fetches.begin()

    @property
    def asked_for(self) -> tuple[int, int]:
        return self._fetcher._fetch_max_wait_ms, self._fetcher._fetch_min_bytes

    def rest(self) -> None:
        self.now += 10.0
        self.fetches.polled(False)

    async def fetch(self, node: int) -> "asyncio.Task[bool]":
        request = SimpleNamespace(_max_wait_ms=self._fetcher._fetch_max_wait_ms)
        task = asyncio.create_task(self._fetcher._proc_fetch_request(None, node, request))
        await asyncio.sleep(0)
        return task

    async def _proc_fetch_request(self, _assignment: Any, _node: int, _request: Any) -> bool:
        if self.fails:
            # The pause after a failure.
            await asyncio.Event().wait()
        try:
            await self.ends.wait()
        except asyncio.CancelledError:
            return False
        return False


async def test_fetches_are_long_when_nothing_has_come_for_ten_seconds() -> None:
    client = Client()
    client.now += 9.9
    client.fetches.polled(False)
    assert client.asked_for == _USUAL
    client.rest()
    assert client.fetches.resting
    assert client.asked_for == _LONG


async def test_records_make_them_short_again() -> None:
    client = Client()
    client.rest()
    client.fetches.polled(True)
    assert client.asked_for == _USUAL
    client.now += 9.9
    client.fetches.polled(False)
    assert client.asked_for == _USUAL


async def test_a_long_fetch_that_is_given_up_takes_its_connection_with_it() -> None:
    client = Client()
    client.rest()
    task = await client.fetch(1)
    task.cancel()
    assert not await task
    assert client.connections[1].closed
    assert not client.connections[2].closed
    assert list(client._client._conns) == [(2, ConnectionGroup.DEFAULT)]


async def test_a_short_fetch_that_is_given_up_leaves_its_connection() -> None:
    client = Client()
    task = await client.fetch(1)
    task.cancel()
    assert not await task
    assert not client.connections[1].closed


async def test_records_of_one_broker_end_the_long_fetches_of_the_others() -> None:
    client = Client()
    client.rest()
    task = await client.fetch(2)
    client.fetches.polled(True)
    assert not await task
    assert client.connections[2].closed


async def test_after_a_fetch_that_failed_they_are_short() -> None:
    client = Client()
    client.rest()
    task = await client.fetch(1)
    client.now += 1.0
    client.ends.set()
    assert not await task
    assert client.asked_for == _USUAL
    assert not client.connections[1].closed


async def test_a_fetch_that_ends_in_its_time_changes_nothing() -> None:
    client = Client()
    client.rest()
    task = await client.fetch(1)
    client.now += 10.0
    client.ends.set()
    assert not await task
    assert client.asked_for == _LONG


async def test_a_lost_coordinator_ends_long_fetches() -> None:
    client = Client()
    client.rest()
    task = await client.fetch(1)
    client._coordinator.coordinator_dead()
    assert not await task
    assert client.connections[1].closed
    assert client.asked_for == _USUAL


@pytest.mark.parametrize("resting", [True, False])
async def test_a_fetch_that_is_given_up_in_its_pause_after_a_failure_ends_like_the_others(resting: bool) -> None:
    client = Client()
    client.fails = True
    if resting:
        client.rest()
    task = await client.fetch(1)
    task.cancel()
    assert not await task
