"""Reads whole topics without a group."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from libs.eventing.bus import Bus, BusUnavailable, Partition, Record, Tail
from libs.retry import RetryPolicy

_log = structlog.get_logger("eventing.tail_reader")
_POLL_SECONDS: Final = 10.0
_CATCH_UP_SECONDS: Final = 0.5
_FRESH_SECONDS: Final = 10.0
_RECONNECT: Final = RetryPolicy(first=0.5, longest=0.5)


class TailReader:
    """Gives every record of some topics to a callback, once and without a gap, through outages of the broker.

    Reading begins at the end; with ``from_start`` at the first record that the topics still keep. ``caught_up`` is set
    when all that was there at the start has been given, and stays set.
    """

    def __init__(
        self, bus: Bus, topics: Sequence[str], on_record: Callable[[Record], None], *, from_start: bool = False
    ) -> None:
        self.caught_up = asyncio.Event()
        self._bus = bus
        self._topics = topics
        self._on_record = on_record
        self._from_start = from_start
        self._tail: Tail | None = None
        self._offsets: Mapping[Partition, int] = {}
        self._fresh_until = float("-inf")

    @property
    def fresh(self) -> bool:
        """Whether the broker answered within the last seconds, so that nothing important is missed."""
        if self._tail is None:
            return False
        now = asyncio.get_running_loop().time()
        # Asked for with each request, and to look at every partition takes a while.
        if now >= self._fresh_until:
            self._fresh_until = self._tail.answered() + _FRESH_SECONDS
        return now < self._fresh_until

    async def run(self) -> None:
        """Read until cancelled; waits for an unreachable broker."""
        await _RECONNECT.run(self._follow, on=BusUnavailable, before_sleep=self._log)

    def _log(self, problem: Exception, _attempt: int) -> None:
        _log.warning("tail.unreachable", topics=list(self._topics), problem=str(problem))

    async def _follow(self) -> None:
        tail = self._bus.tail(self._topics, from_start=self._from_start, offsets=self._offsets)
        try:
            await tail.start()
            self._tail, self._fresh_until = tail, float("-inf")
            await self._read(tail)
        finally:
            self._tail, self._offsets = None, tail.offsets
            await tail.stop()

    async def _read(self, tail: Tail) -> None:
        while True:
            if not self.caught_up.is_set() and await tail.caught_up():
                self.caught_up.set()
            seconds = _POLL_SECONDS if self.caught_up.is_set() else _CATCH_UP_SECONDS
            for record in await tail.poll(seconds):
                self._on_record(record)
