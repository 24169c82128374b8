"""Reads a company's timeline once for all of the company's readers on this replica."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

import orjson
import structlog

from libs.contracts.errors import ServiceError, ServiceUnavailable
from libs.contracts.messages import Received
from libs.contracts.timeline import TimelineFilter
from services.gateway.domain.ports import Timeline
from services.gateway.domain.timeline import TimelineEvent
from services.gateway.use_cases.reading.feed_reader import FeedReader

_log = structlog.get_logger("timeline.feed")
_PAGE: Final = 500
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.04
_AWAITED_SECONDS: Final = 2.0
_REMEMBERED: Final = 2000
# Half of a reader's queue, so that one more page doesn't overflow the queue.
_MOST_KEPT_WAITING: Final = 1000
# The number of readers woken in the first burst. The size of later bursts depends on the duration of earlier bursts.
_AT_ONCE: Final = 16
_MOST_AT_ONCE: Final = 64
_BURST_SECONDS: Final = 0.002
# The pause after a burst, as a multiple of its length.
_REST: Final = 7.0
_Key = tuple[str, str]
_Readers = defaultdict[TimelineFilter, set[FeedReader]]


class CompanyFeed:
    """Passes a company's events after ``position`` to its readers. Reads from the log only after ``wake`` is called.

    Many readers are woken in bursts. The pause after each burst is seven times as long as the burst, which leaves seven
    eighths of the event loop to other tasks. The feed doesn't read the next page while a waiting reader's queue is too
    long.
    """

    def __init__(
        self,
        company_id: str,
        timeline: Timeline,
        position: int,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self.position = position
        self._monotonic = monotonic
        self._timeline = timeline
        self._where = TimelineFilter(company_id=company_id)
        self._readers: defaultdict[_Key | None, _Readers] = defaultdict(lambda: defaultdict(set))
        self._awaited: dict[str, float] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._text_readers = 0
        self._pause = _FIRST_PAUSE
        self._task: asyncio.Task[None] | None = None
        self._due: dict[FeedReader, None] = {}
        self._woken: list[FeedReader] = []
        self._waking: asyncio.Task[None] | None = None

    @property
    def has_readers(self) -> bool:
        return bool(self._readers)

    def readers(self) -> Iterator[FeedReader]:
        alike = [readers for each in self._readers.values() for readers in each.values()]
        return (reader for readers in alike for reader in list(readers))

    def add(self, reader: FeedReader) -> None:
        self._readers[_key_of(reader.where)][reader.where].add(reader)
        self._text_readers += reader.takes_texts

    def discard(self, reader: FeedReader) -> None:
        key, where = _key_of(reader.where), reader.where
        self._readers[key][where].discard(reader)
        self._text_readers -= reader.takes_texts
        self._due.pop(reader, None)
        if reader in self._woken:
            self._woken.remove(reader)
        if not self._readers[key][where]:
            del self._readers[key][where]
        if not self._readers[key]:
            del self._readers[key]

    def wake(self, event_id: str | None = None) -> None:
        """Resumes reading. Given an event's ID, reads until the log contains the event."""
        if event_id is not None:
            if event_id in self._seen:
                return
            self._awaited[event_id] = asyncio.get_running_loop().time() + _AWAITED_SECONDS
            self._pause = _FIRST_PAUSE
        if self._task is None:
            self._task = asyncio.create_task(self._read_on(), name="timeline.feed")

    def pass_text(self, text: Received) -> None:
        """Passes a piece of a turn's text to the session's readers."""
        if not self._text_readers:
            return
        of_session = self._readers.get(("session", orjson.loads(text.payload)["session_id"]))
        for reader in chain.from_iterable(of_session.values()) if of_session is not None else ():
            if reader.takes_texts:
                reader.offer((text,))
                reader.wake()

    def end(self, problem: ServiceError) -> None:
        """Makes all readers raise this error."""
        for reader in self.readers():
            reader.end(problem)

    async def _read_on(self) -> None:
        try:
            while self.has_readers:
                await self._wait_for_readers()
                if await self._read_page():
                    continue
                self._give_up_late()
                if not self._awaited:
                    return
                await asyncio.sleep(self._pause)
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        except ServiceUnavailable as problem:
            # The next check, at most a second later, retries from the same position.
            _log.debug("timeline.unreachable", problem=str(problem))
        except Exception:
            _log.exception("timeline.feed_failed")
        finally:
            self._give_up_late()
            self._task = None

    async def _read_page(self) -> bool:
        """Passes a page of the log to the readers. Returns whether there are more pages."""
        page = await self._timeline.page(self._where, after=self.position, limit=_PAGE)
        # Each event is matched once per filter, however many readers share the filter.
        wanted: dict[TimelineFilter, list[TimelineEvent]] = {}
        for event in page.events:
            self.position = event.position
            self._awaited.pop(event.id, None)
            self._seen[event.id] = None
            number = 0
            for where, readers in self._concerned(event):
                if where.admits(event):
                    wanted.setdefault(where, []).append(event)
                    number += len(readers)
            if number > 1:
                event.share()
        for where, events in wanted.items():
            # The set may still contain readers that have ended.
            for reader in self._readers[_key_of(where)][where]:
                self._due[reader] = None
                reader.offer(events)
        self._wake_readers()
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return page.has_more

    async def _wait_for_readers(self) -> None:
        """Waits while readers that haven't been woken have too much to read. Doesn't wait for slow clients."""
        while any(reader.kept_waiting > _MOST_KEPT_WAITING for reader in chain(self._due, self._woken)):
            await asyncio.sleep(_FIRST_PAUSE)

    def _wake_readers(self) -> None:
        if self._waking is not None:
            return
        if len(self._due) <= _AT_ONCE:
            self._wake_next()
        else:
            self._waking = asyncio.create_task(self._wake_in_turn(), name="timeline.wake")

    async def _wake_in_turn(self) -> None:
        at_once = _AT_ONCE
        try:
            while self._due:
                began = self._monotonic()
                woken = self._wake_next(at_once, once=True)
                # Lets the readers send their events first.
                await asyncio.sleep(0)
                took = self._monotonic() - began
                in_time = int(at_once * _BURST_SECONDS / max(took, 1e-6))
                at_once = min(max(in_time, 1), 2 * at_once, _MOST_AT_ONCE)
                await asyncio.sleep(took * _REST)
                for reader in woken:
                    if not reader.is_held:
                        # The reader has everything, or its client is slower than the bursts.
                        reader.unlimit()
                    else:
                        self._due[reader] = None
        finally:
            self._waking = None
            self._woken = []

    def _wake_next(self, most: int = _AT_ONCE, *, once: bool = False) -> list[FeedReader]:
        readers = list(islice(self._due, most))
        for reader in readers:
            del self._due[reader]
            reader.wake(once=once)
        self._woken = readers
        return readers

    def _concerned(self, event: TimelineEvent) -> Iterator[tuple[TimelineFilter, set[FeedReader]]]:
        """Yields the filters that the event may match, with their readers."""
        keys = (("turn", event.turn_id), ("session", event.session_id), ("correlation", event.correlation_id), None)
        for key in keys:
            yield from self._readers.get(key, {}).items()  # type: ignore[arg-type]

    def _give_up_late(self) -> None:
        """Stops waiting for events that the log didn't store in time. A later check will find them."""
        now = asyncio.get_running_loop().time()
        self._awaited = {event_id: until for event_id, until in self._awaited.items() if until > now}


def _key_of(where: TimelineFilter) -> _Key | None:
    """Returns the filter's narrowest criterion."""
    if where.turn_id is not None:
        return ("turn", where.turn_id)
    if where.session_id is not None:
        return ("session", where.session_id)
    return None if where.correlation_id is None else ("correlation", where.correlation_id)
