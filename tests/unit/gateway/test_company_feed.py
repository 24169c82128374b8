"""One company's feed with many readers, beside others that need the event loop."""

import asyncio
import time
from collections.abc import Callable

import pytest

from libs.contracts.timeline import TimelineFilter
from libs.eventing.request_reply import MAX_EVENTS, MOST_UNREAD, ReadTooSlowly
from services.gateway.domain.timeline import TimelineEvent
from services.gateway.use_cases.reading import company_feed, feed_reader
from services.gateway.use_cases.reading.company_feed import CompanyFeed
from services.gateway.use_cases.reading.feed_reader import FeedReader
from tests.support.timeline import FakeTimeline, event
from tests.support.waiting import until

WHERE = TimelineFilter(company_id="acme")
READERS, EVENTS = 200, 30


async def positions(reader: FeedReader) -> list[int]:
    taken = await reader.next()
    assert taken, "a reminder"
    return [event.position for event in taken]  # type: ignore[union-attr]


class Readers:
    def __init__(self, feed: CompanyFeed, number: int) -> None:
        self.feed = feed
        self.reads = 0
        self.bursts: list[int] = []
        self.seen: list[list[int]] = [[] for _ in range(number)]
        self.readers = [FeedReader(WHERE, joined_at=0) for _ in range(number)]
        for reader in self.readers:
            feed.add(reader)
        self.tasks = [asyncio.create_task(self._read(*each)) for each in zip(self.readers, self.seen, strict=True)]

    async def _read(self, reader: FeedReader, seen: list[int]) -> None:
        while True:
            seen += await positions(reader)
            self.reads += 1

    async def complete(self, number: int) -> int:
        """Waits until every reader has read so many; returns the most that were made before others had their turn."""
        before = 0

        def is_complete() -> bool:
            nonlocal before
            if self.reads > before:
                self.bursts.append(self.reads - before)
            before = self.reads
            return min(map(len, self.seen)) >= number

        await until(is_complete, pause=0)
        return max(self.bursts)

    async def leave(self) -> None:
        for reader, task in zip(self.readers, self.tasks, strict=True):
            self.feed.discard(reader)
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def woken(
    number: int = READERS, events: int = EVENTS, monotonic: Callable[[], float] = time.monotonic
) -> tuple[FakeTimeline, CompanyFeed, Readers]:
    """A feed that is about to read its first events, and its readers, which wait for them."""
    timeline = FakeTimeline()
    feed = CompanyFeed("acme", timeline, 0, monotonic=monotonic)
    readers = Readers(feed, number)
    await asyncio.sleep(0)
    for _ in range(events):
        timeline.add(company_id="acme")
    feed.wake()
    return timeline, feed, readers


async def test_many_readers_leave_the_event_loop_to_others() -> None:
    timeline, feed, readers = await woken()
    most = await readers.complete(EVENTS)
    assert most <= company_feed._MOST_AT_ONCE
    assert all(seen == list(range(1, EVENTS + 1)) for seen in readers.seen)
    # What is there for a reader it gets at once.
    assert readers.reads == READERS
    # What is woken later is not held to what was allowed before.
    timeline.add(company_id="acme")
    feed.wake()
    await readers.complete(EVENTS + 1)
    await readers.leave()


async def test_a_reader_that_is_slow_to_write_does_not_keep_the_waking_busy() -> None:
    _, feed, readers = await woken()
    stalled = FeedReader(WHERE, joined_at=0)
    feed.add(stalled)
    await readers.complete(EVENTS)
    await until(lambda: feed._waking is None, pause=0)
    # All is there for it when it goes on.
    assert await positions(stalled) == list(range(1, EVENTS + 1))
    feed.discard(stalled)
    await readers.leave()


async def test_readers_of_much_get_it_in_pieces_and_each_what_it_wants() -> None:
    timeline = FakeTimeline()
    feed = CompanyFeed("acme", timeline, 0, monotonic=time.monotonic)
    everything = Readers(feed, READERS)
    of_turn = FeedReader(TimelineFilter(company_id="acme", turn_id="t1"), joined_at=0)
    feed.add(of_turn)
    events = 3 * MAX_EVENTS
    for number in range(events):
        timeline.add(company_id="acme", turn_id="t1" if number == MAX_EVENTS else None)
    feed.wake()
    await everything.complete(events)
    assert all(seen == list(range(1, events + 1)) for seen in everything.seen)
    assert everything.reads == READERS * events // MAX_EVENTS
    assert await positions(of_turn) == [MAX_EVENTS + 1]
    feed.discard(of_turn)
    await everything.leave()
    assert not feed.has_readers


@pytest.mark.parametrize("number", [1, company_feed._AT_ONCE + 4])
async def test_readers_of_a_feed_that_is_far_behind_get_everything(number: int) -> None:
    _, feed, readers = await woken(number, 2 * MOST_UNREAD)
    await readers.complete(2 * MOST_UNREAD)
    assert all(seen == list(range(1, 2 * MOST_UNREAD + 1)) for seen in readers.seen)
    await readers.leave()
    assert not feed.has_readers


async def test_a_reader_that_takes_nothing_is_ended_and_the_others_are_not() -> None:
    _, feed, readers = await woken(company_feed._AT_ONCE + 4, 2 * MOST_UNREAD)
    overflows: list[int] = []
    stalled = FeedReader(WHERE, joined_at=0, on_overflow=lambda: overflows.append(feed.position))
    feed.add(stalled)
    await readers.complete(2 * MOST_UNREAD)
    assert overflows == [MOST_UNREAD + 500]
    with pytest.raises(ReadTooSlowly):
        await stalled.next()
    feed.discard(stalled)
    await readers.leave()


def _in_capitals(event: TimelineEvent) -> bytes:
    return event.to_json().upper()


async def test_events_that_several_readers_share_are_rendered_once() -> None:
    timeline, _, readers = await woken(2, 1)
    await readers.complete(1)
    (shared,) = timeline.events["acme"]
    in_capitals = shared.rendered_as(_in_capitals)
    assert in_capitals == shared.to_json().upper()
    assert in_capitals is shared.rendered_as(_in_capitals)
    await readers.leave()
    timeline, _, readers = await woken(1, 1)
    await readers.complete(1)
    (own,) = timeline.events["acme"]
    assert own.rendered_as(_in_capitals) is not own.rendered_as(_in_capitals)
    await readers.leave()


async def test_a_position_is_not_told_behind_later_events() -> None:
    reader = FeedReader(WHERE, joined_at=0)
    reader.tick(asyncio.get_running_loop().time() + feed_reader.KEEP_ALIVE_SECONDS, 100)
    reader.offer([event(position=101)])
    assert await positions(reader) == [101]
    following = asyncio.create_task(positions(reader))
    await asyncio.sleep(0)
    reader.offer([event(position=102)])
    reader.wake()
    assert await following == [102]
