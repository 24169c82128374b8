"""Messages on their way into the outbox."""

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Final

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Message, command_models
from libs.tracing import current_traceparent

# As long as command topics keep them. Older ones are replays by hand, which the inbox may have forgotten.
COMMAND_LIFETIME: Final = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class MessageContext:
    """Tenant, correlation, cause and trace of the messages that a piece of work emits.

    ``causation_id`` is the id of the command or event that the work began with.
    """

    company_id: str
    correlation_id: str
    causation_id: str | None = None
    traceparent: str | None = field(default_factory=current_traceparent)


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """An event or command about to be recorded in the outbox.

    ``sequence`` counts the subject's messages from 1; left out, it is allocated under the subject's lock.
    ``type`` and ``topic`` are given only for ``….rejected`` events, whose class serves many types. ``encoded`` is the
    payload when the caller has the bytes already. ``identity`` is the caller in whose name a command is sent; events
    have none.
    """

    message: Message
    subject: str
    context: MessageContext
    sequence: int | None = None
    message_id: str = field(default_factory=new_id)
    type: str | None = None
    topic: str | None = None
    encoded: bytes | None = None
    identity: Identity | None = None


@cache
def is_terminal(event_type: str) -> bool:
    """Whether an event of this type ends the command that caused it."""
    return any(event_type in command.outcome_types() for command in command_models().values())
