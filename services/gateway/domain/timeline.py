"""Events of the timeline, as readers get them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from libs.contracts.timeline import RecordedEvent


@dataclass(slots=True, kw_only=True)
class TimelineEvent(RecordedEvent):
    """An event that several readers may get."""

    _kept: "dict[Form, bytes] | None" = field(default=None, init=False, repr=False, compare=False)

    def share(self) -> None:
        """Makes ``rendered_as`` keep its results."""
        self._kept = {}

    def rendered_as(self, form: "Form") -> bytes:
        """The event in that form; made once when the event is shared."""
        if self._kept is None:
            return form(self)
        kept = self._kept.get(form)
        if kept is None:
            kept = self._kept[form] = form(self)
        return kept


Form = Callable[[TimelineEvent], bytes]
"""Renders an event for its readers."""


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """A stretch of the timeline. The next one begins after ``next``; without ``has_more`` there is none yet.

    Read backwards, newest first, the next one begins before ``next``.

    A page may be short, even empty, while there is more: one read looks at a bounded number of events.
    """

    events: Sequence[TimelineEvent]
    next: int
    has_more: bool
