"""The timeline: events as readers get them, a caller's filter, and why reading may end early."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from libs.contracts.errors import PermissionDenied, ServiceUnavailable
from libs.contracts.timeline import RecordedEvent, TimelineFilter
from services.gateway.domain.accounts import Principal


@dataclass(slots=True, kw_only=True)
class TimelineEvent(RecordedEvent):
    """An event that several readers share."""

    _kept: "dict[Form, bytes] | None" = field(default=None, init=False, repr=False, compare=False)

    def share(self) -> None:
        """Makes ``rendered_as`` cache its results."""
        self._kept = {}

    def rendered_as(self, form: "Form") -> bytes:
        """The event in that form; rendered once if the event is shared."""
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
    """A stretch of the timeline. The next one starts after ``next``; without ``has_more`` there is none yet.

    Read backwards, newest first, the next one starts before ``next``.

    A page may be short, even empty, while more follow: each read examines a bounded number of events.
    """

    events: Sequence[TimelineEvent]
    next: int
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuery:
    """The caller's criteria, all of which an event must match. ``types``: names, or prefixes ending in ``*``."""

    correlation_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    types: tuple[str, ...] = ()

    def visible_to(self, caller: Principal) -> TimelineFilter:
        """These criteria, restricted to events that the caller may see.

        Raises ``PermissionDenied`` for a public principal that names no session, since it has nothing else.
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
