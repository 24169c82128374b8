"""Where an event comes from, and events on their way into the outbox."""

from dataclasses import dataclass, field
from functools import cache

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event, command_models
from libs.tracing import current_traceparent


@dataclass(frozen=True, slots=True)
class MessageContext:
    """Whose work caused an event: the tenant, the caller's label, the command or event that led to it."""

    company_id: str
    correlation_id: str
    causation_id: str | None = None
    traceparent: str | None = field(default_factory=current_traceparent)


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event about to be recorded.

    ``sequence`` counts the subject's events from 1; left out, it is allocated under the subject's lock.
    ``type`` is given only for ``….rejected`` events, whose class serves many types. ``encoded`` is the payload
    when the caller has the bytes already.
    """

    event: Event
    subject: str
    context: MessageContext
    sequence: int | None = None
    event_id: str = field(default_factory=new_id)
    type: str | None = None
    topic: str | None = None
    encoded: bytes | None = None


@cache
def is_terminal(event_type: str) -> bool:
    """Whether an event of this type ends the command that caused it."""
    return any(event_type in command.outcome_types() for command in command_models().values())
