"""The order of a company: by the positions of its events."""

from collections.abc import Sequence

from libs.contracts.messages import Received
from services.gateway.domain.timeline import TimelineEvent, TimelinePage
from services.gateway.use_cases.reading.feed_reader import FeedReader


class CompanyOrder:
    is_incomplete = has_ended = False

    def __init__(self, after: int) -> None:
        self.position = after
        self._reader: FeedReader | None = None

    async def take(self, items: Sequence[TimelineEvent | Received]) -> Sequence[TimelineEvent]:
        new = [each for each in items if isinstance(each, TimelineEvent) and each.position > self.position]
        if new:
            self.position = new[-1].position
        return new

    async def take_page(self, page: TimelinePage) -> Sequence[TimelineEvent]:
        self.position = page.next
        return page.events

    async def join(self, reader: FeedReader) -> Sequence[TimelineEvent]:
        self.position = max(self.position, reader.joined_at)
        self._reader = reader
        return ()

    async def repair(self) -> Sequence[TimelineEvent]:
        return ()

    async def ask(self) -> Sequence[TimelineEvent]:
        """Nothing is lost; what others wanted has gone by meanwhile."""
        if self._reader is not None:
            self.position = max(self.position, self._reader.reached)
        return ()
