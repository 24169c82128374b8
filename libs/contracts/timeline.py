"""The timeline: a company's recorded events, numbered without gaps, and who may see which."""

from dataclasses import dataclass, fields
from typing import Any, Final

from pydantic_core import to_json


@dataclass(slots=True, kw_only=True)
class RecordedEvent:
    """One event of a company. ``position`` counts the company's events without gaps; 0 until the log has numbered it.

    ``type`` is the public name, without prefix and version; ``version`` is that of the payload. ``owner_id`` is the
    user who may see it beside holders of ``company:read``, None when the whole company may. ``data`` is the payload's
    JSON as its service published it.
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
        """The event in the API."""
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
        # Its payload stays byte for byte as it was published.
        return to_json(fields)[:-1] + b',"data":' + self.data + b"}"


EVENT_FIELDS: Final = tuple(field.name for field in fields(RecordedEvent) if field.name != "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFilter:
    """Selects the events of a company that a reader wants and may see; None leaves a filter out.

    ``types`` are names, or prefixes that end in ``*``; an event of any of them is wanted. ``visible_to`` is the user
    for whom events of other users' private sessions are left out, None for a holder of ``company:read``.
    """

    company_id: str
    correlation_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    types: tuple[str, ...] = ()
    visible_to: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The whole names of ``types``."""
        return tuple(name for name in self.types if not name.endswith("*"))

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of ``types``, without the asterisk."""
        return tuple(name[:-1] for name in self.types if name.endswith("*"))

    def admits(self, event: RecordedEvent) -> bool:
        """Whether the event is one that the reader wants and may see."""
        return (
            event.company_id == self.company_id
            and (self.visible_to is None or event.owner_id is None or event.owner_id == self.visible_to)
            and self.correlation_id in (None, event.correlation_id)
            and self.session_id in (None, event.session_id)
            and self.turn_id in (None, event.turn_id)
            and (not self.types or event.type in self.names or event.type.startswith(self.prefixes))
        )
