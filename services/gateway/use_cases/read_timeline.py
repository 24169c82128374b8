from dataclasses import dataclass

from services.gateway.domain.accounts import Principal
from services.gateway.domain.ports import Timeline
from services.gateway.domain.timeline import TimelinePage
from services.gateway.domain.timeline_reading import TimelineQuery


@dataclass(frozen=True, slots=True)
class ReadTimeline:
    """Reads a page of the company's timeline, of the events that the caller may see."""

    timeline: Timeline

    async def __call__(self, caller: Principal, query: TimelineQuery, *, after: int, limit: int) -> TimelinePage:
        return await self.timeline.page(query.visible_to(caller), after=after, limit=limit)


@dataclass(frozen=True, slots=True)
class ReadTimelineBack:
    """Reads a page of the company's timeline from its end, or from a position, newest first."""

    timeline: Timeline

    async def __call__(
        self, caller: Principal, query: TimelineQuery, *, before: int | None, limit: int
    ) -> TimelinePage:
        return await self.timeline.page_back(query.visible_to(caller), before=before, limit=limit)
