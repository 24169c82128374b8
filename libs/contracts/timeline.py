"""The timeline of a company's events, and the filter that selects from it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Generic, TypeVar

from pydantic_core import to_json


@dataclass(slots=True, kw_only=True)
class RecordedEvent:
    """An event in a company's timeline.

    ``position`` numbers the company's events without gaps; 0 means that the event isn't numbered yet. ``type`` is the
    public name, such as ``turn.completed``. ``version`` is the payload's version. ``data`` is the payload as published.
    ``owner_id`` is the user who can see the event, or None if everyone in the company can.
    """

    position: int = 0
    company_id: str
    id: str
    type: str
    version: int = 1
    source: str
    subject: str
    sequence: int
    time: str
    correlation_id: str
    causation_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    owner_id: str | None = None
    data: bytes

    def to_json(self) -> bytes:
        """Returns the event as JSON, in the API's format."""
        fields: dict[str, Any] = {
            "id": self.id,
            "position": self.position,
            "type": self.type,
            "source": self.source,
            "subject": self.subject,
            "sequence": self.sequence,
            "time": self.time,
            "correlation_id": self.correlation_id,
            "causation_id": self.causation_id,
        }
        if self.session_id is not None:
            fields["session_id"] = self.session_id
        if self.turn_id is not None:
            fields["turn_id"] = self.turn_id
        return to_json(fields)[:-1] + b',"data":' + self.data + b"}"


E = TypeVar("E", bound=RecordedEvent, covariant=True)


@dataclass(frozen=True)
class TimelinePage(Generic[E]):
    """A page of the timeline. The next page starts after ``next`` or, when reading backwards, before ``next``.

    A page can be short or empty even if ``has_more`` is True, because each read examines a limited number of events.
    """

    events: Sequence[E]
    next: int
    has_more: bool


EVENT_FIELDS: Final = tuple(field.name for field in fields(RecordedEvent) if field.name != "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFilter:
    """A filter for the events that a reader has requested and can see. A criterion that is None is ignored.

    ``types`` contains names, or prefixes that end in ``*``; an event must match one of them. If ``visible_to`` is a
    user's ID, events that only other users can see are excluded.
    """

    company_id: str
    correlation_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    types: tuple[str, ...] = ()
    visible_to: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the items of ``types`` that are complete names."""
        return tuple(name for name in self.types if not name.endswith("*"))

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Returns the items of ``types`` that are prefixes, without the asterisk."""
        return tuple(name[:-1] for name in self.types if name.endswith("*"))

    def admits(self, event: RecordedEvent) -> bool:
        """Returns whether the event matches the filter."""
        return (
            event.company_id == self.company_id
            and (self.visible_to is None or event.owner_id is None or event.owner_id == self.visible_to)
            and self.correlation_id in (None, event.correlation_id)
            and self.session_id in (None, event.session_id)
            and self.turn_id in (None, event.turn_id)
            and (not self.types or event.type in self.names or event.type.startswith(self.prefixes))
        )
