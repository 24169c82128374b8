from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from services.gateway.domain.accounts import Principal
from services.gateway.domain.ports import Timeline
from services.gateway.domain.timeline import TimelineEvent
from services.gateway.domain.timeline_reading import TimelineQuery
from services.gateway.use_cases.timeline.timeline_feeds import TimelineFeeds

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class FollowTimeline:
    """Yields the events after a position and then those that come, each once, in order, those that are there together.

    Where the past ends, after a page of the past without an event that is wanted, and after every 15 s without one, it
    yields the position that it has come to. Without ``after`` it begins with what comes from now on.

    Raises ``PermissionDenied`` before the first event, later ``AuthenticationFailed`` when the credential has expired,
    and ``ServiceUnavailable`` when the reader is too slow or this replica ends.
    """

    timeline: Timeline
    feeds: TimelineFeeds

    async def __call__(
        self, caller: Principal, query: TimelineQuery, *, after: int | None
    ) -> AsyncGenerator[Sequence[TimelineEvent] | int, None]:
        where = query.visible_to(caller)
        position, has_more = after, after is not None
        # Without the feed, whose queue would overflow while somebody reads on from long ago.
        while has_more and position is not None:
            page = await self.timeline.page(where, after=position, limit=_PAGE)
            if page.events:
                yield page.events
            position, has_more = page.next, page.has_more
            if has_more and not page.events:
                # Of millions of events there may be none for this reader, who would hear nothing for minutes.
                yield position
            # A stream lasts: none keeps its last page of the past.
            del page
        async with self.feeds.joined(where, expires_at=caller.expires_at) as reader:
            if position is None:
                position = reader.joined_at
            while position < reader.joined_at:
                page = await self.timeline.page(where, after=position, limit=_PAGE)
                if page.events:
                    yield page.events
                # What comes after the page is after `joined_at`, and so in the queue.
                position = page.next if page.has_more else max(page.next, reader.joined_at)
                del page
            yield position
            while True:
                followed = await reader.next()
                if isinstance(followed, int):
                    position = max(position, followed)
                    yield position
                elif new := [
                    event for event in followed if isinstance(event, TimelineEvent) and event.position > position
                ]:
                    position = new[-1].position
                    yield new
