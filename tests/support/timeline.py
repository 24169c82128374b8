"""A company's timeline: events for it, and the log in memory behind the ports of the real one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope
from libs.contracts.timeline import RecordedEvent, TimelineFilter
from libs.contracts.timestamps import now_text
from libs.eventing.bus import OffsetMove, Partition, StaleOffset
from services.gateway.domain.timeline import TimelineEvent, TimelinePage
from services.timeline.domain.events import NewEvent

COMPANY = "company-1"


def event(**fields: Any) -> Any:
    """An event that is not stored yet; what is left out is of the company and visible to all of it.

    As the log gets it when it has usage, else as readers get it.
    """
    made: dict[str, Any] = {
        "company_id": COMPANY,
        "id": new_id(),
        "type": "thing.happened",
        "source": "/aes/test",
        "subject": new_id(),
        "sequence": 1,
        "time": now_text(),
        "correlation_id": "label",
        "data": b"{}",
    }
    kind = NewEvent if "usage" in fields else TimelineEvent
    return kind(**{**made, **fields})


def told(company_id: str, event_id: str) -> Envelope:
    """An event as the bus tells of it."""
    told_of = {"id": event_id, "company_id": company_id, "correlation_id": "label"}
    return Envelope(**told_of, type="aes.test.v1", source="/aes/test", subject=event_id, time=now_text())


class FakeTimeline:
    """A ``TimelineLog`` and a ``Timeline``.

    ``looked_at`` bounds how many events one page may look at; ``down`` makes every read fail; ``reads`` counts pages.
    """

    def __init__(self) -> None:
        self.looked_at = 5000
        self.reads = 0
        self.down: Exception | None = None
        self.events: dict[str, list[TimelineEvent]] = {}
        self.stored_offsets: dict[Partition, int] = {}

    async def offsets(self, topics: Sequence[str]) -> Mapping[Partition, int]:
        return {partition: at for partition, at in self.stored_offsets.items() if partition.topic in topics}

    async def store(self, events: Sequence[RecordedEvent], moves: Mapping[Partition, OffsetMove]) -> int:
        if any(self.stored_offsets.get(partition) != move.before for partition, move in moves.items()):
            raise StaleOffset
        self.stored_offsets |= {partition: move.after for partition, move in moves.items()}
        known = {stored.id for log in self.events.values() for stored in log}
        fresh = list({event.id: event for event in events if event.id not in known}.values())
        for each in fresh:
            log = self.events.setdefault(each.company_id, [])
            log.append(replace(each, position=len(log) + 1))
        return len(fresh)

    def add(self, **fields: Any) -> TimelineEvent:
        """Stores an event and returns it with its position."""
        made = event(**fields)
        log = self.events.setdefault(made.company_id, [])
        log.append(replace(made, position=len(log) + 1))
        return log[-1]

    async def head(self, company_id: str) -> int:
        return (await self.heads([company_id])).get(company_id, 0)

    async def heads(self, company_ids: Sequence[str]) -> Mapping[str, int]:
        self._check()
        return {company: len(self.events[company]) for company in company_ids if company in self.events}

    async def newest(self, where: TimelineFilter) -> TimelineEvent | None:
        self._check()
        log = reversed(self.events.get(where.company_id, []))
        return next((event for event in log if where.admits(event)), None)

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage:
        self._check()
        self.reads += 1
        log = self.events.get(where.company_id, [])
        looked_at = log[after : after + self.looked_at]
        found = [event for event in looked_at if where.admits(event)]
        if len(found) > limit:
            return TimelinePage(found[:limit], found[limit - 1].position, has_more=True)
        end = after + len(looked_at)
        return TimelinePage(found, end, has_more=end < len(log))

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage:
        self._check()
        self.reads += 1
        log = self.events.get(where.company_id, [])
        below = log[: len(log) if before is None else max(0, before - 1)]
        looked_at = below[max(0, len(below) - self.looked_at) :]
        found = [event for event in reversed(looked_at) if where.admits(event)]
        if len(found) > limit:
            return TimelinePage(found[:limit], found[limit - 1].position, has_more=True)
        if len(looked_at) < len(below):
            return TimelinePage(found, looked_at[0].position, has_more=True)
        end = len(log) + 1 if before is None else before
        return TimelinePage(found, found[-1].position if found else end, has_more=False)

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[TimelineEvent]:
        found = [event for event in self.events.get(company_id, []) if event.subject == turn_id]
        return sorted((e for e in found if e.sequence > after_sequence), key=lambda event: event.sequence)

    def _check(self) -> None:
        if self.down is not None:
            raise self.down
