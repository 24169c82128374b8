"""Timeline events and filters, and the error that ends streams when the service restarts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from libs.contracts import timeline
from libs.contracts.errors import PermissionDenied, ServiceUnavailable
from libs.contracts.timeline import RecordedEvent, TimelineFilter
from services.gateway.domain.accounts import Principal


@dataclass(slots=True, kw_only=True)
class TimelineEvent(RecordedEvent):
    """A timeline event. Several readers may share it."""

    _kept: "dict[Form, bytes] | None" = field(default=None, init=False, repr=False, compare=False)

    def share(self) -> None:
        """Marks the event as shared, so that ``rendered_as`` caches its results."""
        self._kept = {}

    def rendered_as(self, form: "Form") -> bytes:
        """Renders the event. A shared event is rendered only once per function."""
        if self._kept is None:
            return form(self)
        kept = self._kept.get(form)
        if kept is None:
            kept = self._kept[form] = form(self)
        return kept


TimelinePage = timeline.TimelinePage[TimelineEvent]
Form = Callable[[TimelineEvent], bytes]
"""Renders an event for its readers."""


def visible_events(caller: Principal, session_id: str | None, **criteria: Any) -> TimelineFilter:
    """Returns a filter for the events that match the criteria, and that the caller may see.

    Raises ``PermissionDenied`` for a public principal without a ``session_id``.
    """
    if caller.public is not None and session_id is None:
        raise PermissionDenied("A public key can only read the events of one session. Set session_id.")
    identity = caller.identity
    return TimelineFilter(
        company_id=identity.company_id,
        session_id=session_id,
        visible_to=None if identity.reads_company else identity.user_id,
        **criteria,
    )


class Restarting(ServiceUnavailable):
    def __init__(self) -> None:
        super().__init__("The service is restarting. Reconnect with your last event ID.", retry_after=2)
