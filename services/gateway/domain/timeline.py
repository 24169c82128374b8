"""The timeline: its events as readers get them, what a caller may read of it, and how reading ends early."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from libs.contracts.errors import PermissionDenied, ServiceUnavailable
from libs.contracts.timeline import RecordedEvent, TimelineFilter
from services.gateway.domain.accounts import Principal


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuery:
    """The caller's criteria, all of which an event has to meet. ``types``: names, or prefixes that end in ``*``."""

    correlation_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    types: tuple[str, ...] = ()

    def visible_to(self, caller: Principal) -> TimelineFilter:
        """These criteria within the events that the caller may see.

        Raises ``PermissionDenied`` for a public principal who names no session: sessions are all that it has.
        """
        if caller.public is not None and self.session_id is None:
            raise PermissionDenied("A public key can only read the events of one session. Name it with session_id.")
        identity = caller.identity
        return TimelineFilter(
            company_id=identity.company_id,
            correlation_id=self.correlation_id,
            session_id=self.session_id,
            turn_id=self.turn_id,
            types=self.types,
            visible_to=None if identity.reads_company else identity.user_id,
        )


class Restarting(ServiceUnavailable):
    def __init__(self) -> None:
        super().__init__("The service is restarting. Reconnect with the id of your last event.", retry_after=2)
