"""Readers to which nothing comes fetch less often."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.client import ConnectionGroup

_REST_SECONDS: Final = 10.0
_LONG_SECONDS: Final = 10.0
# A fetch that ends in the moment in which records are drained leaves the fetcher waiting for this.
_FETCHER_SECONDS: Final = 0.5
# A fetch without records that takes less or more than the broker was to wait has failed.
_EARLY_SECONDS: Final = 0.5
_LATE_SECONDS: Final = 5.0


class LongFetches:
    """Has the broker hold fetches for ``seconds`` once their reader has been given nothing for ten.

    What comes is answered at once, and the fetches after it are as short as before. A broker answers the requests of a
    connection one after the other: a long fetch that is given up takes its connection with it, so that nothing waits
    for its end. It is given up when partitions are shared anew, when the reader ends, when another broker has
    something, and when the group's coordinator is lost. After a fetch that has failed they are short as well.

    ``resting``: fetches are long.
    """

    def __init__(
        self,
        client: AIOKafkaConsumer,
        seconds: float = _LONG_SECONDS,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resting = False
        self._client = client
        self._long_ms = int(seconds * 1000)
        self._clock = clock
        self._usual = (0, 0)
        self._rests_at = float("inf")
        self._long_fetches: set[asyncio.Task[Any]] = set()

    def begin(self) -> None:
        """Called when the client has started."""
        fetcher = self._client._fetcher
        fetch = fetcher._proc_fetch_request
        # Nearly everything that it looks for wakes it anyway; its default would do so five times a second besides.
        fetcher._fetcher_timeout = _FETCHER_SECONDS
        self._usual = (fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes)
        self.wake()

        async def fetch_or_nothing(assignment: Any, node_id: int, request: Any) -> bool:
            try:
                return bool(await fetch(assignment, node_id, request))
            except asyncio.CancelledError:
                # The client lets it out while it pauses after a fetch that has failed. All its fetches would end with
                # that without a word, and so would whoever stops the client.
                return False

        async def fetch_unless_given_up(assignment: Any, node_id: int, request: Any) -> bool:
            task, seconds = asyncio.current_task(), request._max_wait_ms / 1000
            if task is None or request._max_wait_ms <= self._usual[0]:
                return await fetch_or_nothing(assignment, node_id, request)
            self._long_fetches.add(task)
            begun = self._clock()
            try:
                # Returns also when it is cancelled or has failed.
                found = await fetch_or_nothing(assignment, node_id, request)
            finally:
                self._long_fetches.discard(task)
                if task.cancelling():
                    self._disconnect(node_id)
            if not found and not seconds - _EARLY_SECONDS < self._clock() - begun < seconds + _LATE_SECONDS:
                self.wake()
            return found

        fetcher._proc_fetch_request = fetch_unless_given_up
        self._wake_without_coordinator()

    def polled(self, given: bool) -> None:
        """Takes note of a poll of all partitions and whether it found records."""
        if given:
            self.wake()
        elif not self.resting and self._clock() >= self._rests_at:
            self.resting = True
            # One byte: what comes after a rest does not wait for more.
            self._set(self._long_ms, 1)

    def wake(self) -> None:
        """Fetches are short, and for some time from now on."""
        self.resting = False
        self._rests_at = self._clock() + _REST_SECONDS
        self._set(*self._usual)
        for task in self._long_fetches:
            task.cancel()

    def _wake_without_coordinator(self) -> None:
        """Looking for it must not wait for a fetch."""
        coordinator = self._client._coordinator
        dead = getattr(coordinator, "coordinator_dead", None)
        if dead is None:
            return

        def dead_and_awake() -> None:
            self.wake()
            dead()

        coordinator.coordinator_dead = dead_and_awake

    def _set(self, wait_ms: int, least_bytes: int) -> None:
        fetcher = self._client._fetcher
        fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes = wait_ms, least_bytes

    def _disconnect(self, node_id: int) -> None:
        connection = self._client._client._conns.pop((node_id, ConnectionGroup.DEFAULT), None)
        if connection is not None:
            connection.close()
