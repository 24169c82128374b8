"""Manages the feeds of companies with readers on this replica."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.messages import Envelope, Received
from libs.contracts.timeline import TimelineFilter
from services.gateway.domain.ports import Timeline
from services.gateway.domain.timeline import Restarting
from services.gateway.use_cases.reading.company_feed import CompanyFeed
from services.gateway.use_cases.reading.feed_reader import FeedReader

_log = structlog.get_logger("timeline.feeds")
_CHECK_SECONDS: Final = 1.0


class Feeds:
    """Opens a company's feed for its first reader, and closes the feed after its last reader.

    Every second, one loop sends keep-alives for all feeds. Another loop checks the log for events that didn't arrive
    over Kafka.
    """

    def __init__(
        self,
        timeline: Timeline,
        *,
        monotonic: Callable[[], float],
        on_overflow: Callable[[], None],
    ) -> None:
        self._timeline = timeline
        self._monotonic = monotonic
        self._on_overflow = on_overflow
        self._feeds: dict[str, CompanyFeed] = {}
        # Stops the loops while there are no readers.
        self._has_feeds = asyncio.Event()
        self._stopping = False

    def wake(self, envelope: Envelope, _: bytes = b"") -> None:
        """Wakes a company's feed after an event was published."""
        feed = self._feeds.get(envelope.company_id)
        if feed is not None:
            feed.wake(envelope.id)

    def pass_text(self, envelope: Envelope, payload: bytes) -> None:
        """Passes a piece of a turn's text to the company's feed."""
        feed = self._feeds.get(envelope.company_id)
        if feed is not None:
            feed.pass_text(Received(envelope, payload))

    @asynccontextmanager
    async def joined(self, where: TimelineFilter, *, takes_texts: bool = False) -> AsyncIterator[FeedReader]:
        """Yields a reader of the events after its ``joined_at``. Raises ``Restarting`` if this replica is shutting
        down.
        """
        feed = await self._feed(where.company_id)
        if self._stopping:
            raise Restarting()
        reader = FeedReader(where, joined_at=feed.position, takes_texts=takes_texts, on_overflow=self._on_overflow)
        feed.add(reader)
        try:
            yield reader
        finally:
            feed.discard(reader)
            if not feed.has_readers and self._feeds.get(where.company_id) is feed:
                del self._feeds[where.company_id]
                if not self._feeds:
                    self._has_feeds.clear()

    async def run(self) -> None:
        """Sends keep-alives and checks the log until cancelled."""
        # Separate loops, so that a hanging database doesn't delay keep-alives.
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._keep_ticking(), name="timeline.tend")
            loops.create_task(self._keep_checking(), name="timeline.look")

    def stop(self) -> None:
        """Ends all readers, and refuses new readers."""
        self._stopping = True
        for feed in self._feeds.values():
            feed.end(Restarting())

    async def _feed(self, company_id: str) -> CompanyFeed:
        feed = self._feeds.get(company_id)
        if feed is None:
            head = (await self._timeline.heads([company_id])).get(company_id, 0)
            # Another reader may have opened the feed in the meantime.
            feed = self._feeds.setdefault(company_id, self._open(company_id, head))
            self._has_feeds.set()
        return feed

    def _open(self, company_id: str, head: int) -> CompanyFeed:
        return CompanyFeed(company_id, self._timeline, head, monotonic=self._monotonic)

    async def _keep_ticking(self) -> None:
        while await self._has_feeds.wait():
            await asyncio.sleep(_CHECK_SECONDS)
            self._tick_readers()

    async def _keep_checking(self) -> None:
        while await self._has_feeds.wait():
            await asyncio.sleep(_CHECK_SECONDS)
            if self._feeds:
                await self._check_heads()

    def _tick_readers(self) -> None:
        now = asyncio.get_running_loop().time()
        for feed in self._feeds.values():
            for reader in feed.readers():
                reader.tick(now, feed.position)

    async def _check_heads(self) -> None:
        """Wakes the feeds whose position is behind the company's log."""
        try:
            heads = await self._timeline.heads(list(self._feeds))
        except ServiceUnavailable as problem:
            _log.warning("timeline.unreachable", problem=str(problem).strip())
            return
        for company_id, head in heads.items():
            feed = self._feeds.get(company_id)
            if feed is not None and feed.position < head:
                feed.wake()
