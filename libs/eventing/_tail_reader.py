"""Reads whole topics from their end; tells when it may have missed something."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from libs.eventing._bus import Bus, BusUnavailable, Record, Tail

_log = structlog.get_logger("eventing.tail")
_POLL_SECONDS: Final = 0.5
_RECONNECT_SECONDS: Final = 0.5
_PROBE_SECONDS: Final = 2.0
_FRESH_SECONDS: Final = 10.0


class TailReader:
    """Gives every record of some topics to a callback, without a gap while ``positioned`` is set."""

    def __init__(self, bus: Bus, topics: Sequence[str], on_record: Callable[[Record], None]) -> None:
        self.positioned = asyncio.Event()
        self._bus = bus
        self._topics = topics
        self._on_record = on_record
        self._answered = float("-inf")

    @property
    def fresh(self) -> bool:
        """Whether the broker answered within the last seconds, so that nothing important is missed."""
        return asyncio.get_running_loop().time() - self._answered < _FRESH_SECONDS

    async def run(self) -> None:
        while True:
            tail = self._bus.tail(self._topics)
            try:
                await tail.start()
                self.positioned.set()
                await self._read(tail)
            except BusUnavailable as problem:
                _log.warning("tail.unreachable", topics=list(self._topics), problem=str(problem))
            finally:
                # The next tail starts at the end: records in between are missed.
                self.positioned.clear()
                self._answered = float("-inf")
                await tail.stop()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _read(self, tail: Tail) -> None:
        probe = asyncio.create_task(self._probe(tail), name="tail.probe")
        try:
            while True:
                for record in await tail.poll(_POLL_SECONDS):
                    self._on_record(record)
        finally:
            probe.cancel()

    async def _probe(self, tail: Tail) -> None:
        # A quiet topic and a frozen broker look alike to the fetches.
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                if await tail.answering():
                    # When it was asked, not when it answered: what happened in between may not be read yet.
                    self._answered = started
            except Exception:
                _log.exception("tail.probe_failed", topics=list(self._topics))
            await asyncio.sleep(_PROBE_SECONDS)
