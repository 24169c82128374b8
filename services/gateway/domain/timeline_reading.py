"""Reading the timeline: what a caller asks for, what it may see of that, and how reading ends early."""

from dataclasses import dataclass

from libs.contracts.errors import PermissionDenied, ServiceUnavailable
from libs.contracts.timeline import TimelineFilter
from services.gateway.domain.accounts import Principal


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
            raise PermissionDenied("A public key sees the events of one of its own sessions: name it by session_id.")
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
        super().__init__("The service is being restarted; go on after the last event that you have.", retry_after=2)
