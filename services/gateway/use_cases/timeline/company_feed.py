"""Reads one company's timeline as it grows, once for all of its readers in this replica."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import structlog

from libs.contracts.errors import ServiceError
from libs.persistence import is_outage
from services.gateway.domain.ports import Timeline
from services.gateway.domain.timeline import TimelineEvent, TimelineFilter
from services.gateway.use_cases.timeline.feed_reader import FeedReader

_log = structlog.get_logger("timeline.feed")
_PAGE: Final = 500
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.04
_AWAITED_SECONDS: Final = 2.0
_REMEMBERED: Final = 2000
# Readers that write to their callers at once, and offers that are made, before others have the event loop.
_AT_ONCE: Final = 16
_EVENTS_AT_ONCE: Final = 8
_OFFERS_AT_ONCE: Final = 2000
_Key = tuple[str, str]


class CompanyFeed:
    """Gives the events after ``position`` to readers; reads nothing while it is not woken.

    The bus tells of an event about when the log gets it, so that the feed looks again until the event is there.

    Many readers are woken a few at a time, with a rest as long as that took: however many a company has, they leave
    half of the event loop to others. What comes meanwhile waits in their queues.
    """

    def __init__(self, company_id: str, timeline: Timeline, position: int, *, on_slow: Callable[[], None]) -> None:
        self.position = position
        self._on_slow = on_slow
        self._timeline = timeline
        self._where = TimelineFilter(company_id=company_id)
        self._readers: defaultdict[_Key | None, set[FeedReader]] = defaultdict(set)
        self._awaited: dict[str, float] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._pause = _FIRST_PAUSE
        self._task: asyncio.Task[None] | None = None
        self._due: dict[FeedReader, None] = {}
        self._waking: asyncio.Task[None] | None = None

    @property
    def has_readers(self) -> bool:
        return bool(self._readers)

    def readers(self) -> Iterator[FeedReader]:
        return (reader for each in list(self._readers.values()) for reader in list(each))

    def add(self, reader: FeedReader) -> None:
        self._readers[_key_of(reader.where)].add(reader)

    def discard(self, reader: FeedReader) -> None:
        key = _key_of(reader.where)
        self._readers[key].discard(reader)
        self._due.pop(reader, None)
        if not self._readers[key]:
            del self._readers[key]

    def wake(self, event_id: str | None = None) -> None:
        """Reads on, until this event has come if one is named."""
        if event_id is not None:
            if event_id in self._seen:
                return
            self._awaited[event_id] = asyncio.get_running_loop().time() + _AWAITED_SECONDS
            self._pause = _FIRST_PAUSE
        if self._task is None:
            self._task = asyncio.create_task(self._read_on(), name="timeline.feed")

    def end(self, problem: ServiceError) -> None:
        """Ends all readers."""
        for reader in self.readers():
            reader.end(problem)

    async def _read_on(self) -> None:
        try:
            while self.has_readers:
                if await self._read_page():
                    continue
                self._give_up_late()
                if not self._awaited:
                    return
                await asyncio.sleep(self._pause)
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        except Exception as problem:
            # The next look, a second later at most, tries again from the same position.
            if not is_outage(problem):
                _log.exception("timeline.feed_failed")
        finally:
            self._give_up_late()
            self._task = None

    async def _read_page(self) -> bool:
        """Hands the next events to the readers; returns whether more are waiting."""
        page = await self._timeline.page(self._where, after=self.position, limit=_PAGE)
        now = asyncio.get_running_loop().time()
        offers = 0
        for event in page.events:
            if offers >= _OFFERS_AT_ONCE:
                offers = 0
                self._wake_readers()
                await asyncio.sleep(0)
            self.position = event.position
            self._awaited.pop(event.id, None)
            self._seen[event.id] = None
            for reader in self._concerned(event):
                offers += 1
                if reader.where.admits(event):
                    self._due[reader] = None
                    if reader.offer(event, now):
                        self._on_slow()
        self._wake_readers()
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return page.has_more

    def _wake_readers(self) -> None:
        if self._waking is not None:
            return
        if len(self._due) <= _AT_ONCE:
            self._wake_next()
        else:
            self._waking = asyncio.create_task(self._wake_in_turn(), name="timeline.wake")

    async def _wake_in_turn(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while self._due:
                began = clock()
                woken = self._wake_next(_EVENTS_AT_ONCE)
                # They write before this goes on.
                await asyncio.sleep(0)
                await asyncio.sleep(clock() - began)
                for reader in woken:
                    if not reader.is_held:
                        # Its caller is slower than this, or it has all.
                        reader.unlimit()
                    elif reader in self._readers.get(_key_of(reader.where), ()):
                        self._due[reader] = None
        finally:
            self._waking = None

    def _wake_next(self, most: int | None = None) -> list[FeedReader]:
        readers = list(islice(self._due, _AT_ONCE))
        for reader in readers:
            del self._due[reader]
            reader.wake(most)
        return readers

    def _concerned(self, event: TimelineEvent) -> Iterator[FeedReader]:
        """Readers that the event may be for, without a look at all those of other sessions."""
        keys = (("turn", event.turn_id), ("session", event.session_id), ("correlation", event.correlation_id), None)
        for key in keys:
            # Ended readers leave the set by themselves, later.
            yield from self._readers.get(key, ())  # type: ignore[arg-type]

    def _give_up_late(self) -> None:
        """Stops waiting for events that the log does not get in time; they come with a later look."""
        now = asyncio.get_running_loop().time()
        self._awaited = {event_id: until for event_id, until in self._awaited.items() if until > now}


def _key_of(where: TimelineFilter) -> _Key | None:
    """The narrowest thing that the reader asks for."""
    if where.turn_id is not None:
        return ("turn", where.turn_id)
    if where.session_id is not None:
        return ("session", where.session_id)
    return None if where.correlation_id is None else ("correlation", where.correlation_id)
