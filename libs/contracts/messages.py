"""Messages on the bus: their envelope, and the base classes of commands and events.

The envelope follows CloudEvents 1.0 in Kafka's binary mode: attributes are headers, and the value is only the payload.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict

from libs.contracts.errors import ErrorInfo
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.topics import Topic, TopicKind, topic_of

JSON_CONTENT_TYPE = "application/json"

_HEADERS = {
    "ce_id": "id",
    "ce_type": "type",
    "ce_source": "source",
    "ce_subject": "subject",
    "ce_time": "time",
    "ce_correlationid": "correlation_id",
    "ce_causationid": "causation_id",
    "ce_companyid": "company_id",
    "ce_ownerid": "owner_id",
    "ce_sequence": "sequence",
    "ce_expiresat": "expires_at",
    "ce_identity": "identity",
    "ce_signature": "signature",
    "ce_dataref": "data_ref",
    "ce_datahash": "data_hash",
    "traceparent": "traceparent",
    "content-type": "content_type",
}
_REQUIRED = frozenset({"id", "type", "source", "subject", "time", "correlation_id", "company_id"})


class PoisonMessage(Exception):
    """The message can never be processed."""


# Not frozen, because creating a frozen instance takes two and a half times as long.
@dataclass(slots=True, kw_only=True)
class Envelope:
    """A message's CloudEvents attributes. ``libs.contracts.asyncapi`` describes each attribute."""

    id: str
    type: str
    source: str
    subject: str
    time: str
    correlation_id: str
    company_id: str
    causation_id: str | None = None
    owner_id: str | None = None
    sequence: int = 0
    expires_at: str | None = None
    identity: str | None = None
    signature: str | None = None
    data_ref: str | None = None
    data_hash: str | None = None
    traceparent: str | None = None
    content_type: str = JSON_CONTENT_TYPE

    def attributes(self) -> dict[str, str]:
        """Returns the attributes as strings, by header name."""
        attributes = {"ce_specversion": "1.0"}
        for header, name in _HEADERS.items():
            value = getattr(self, name)
            if value is not None:
                attributes[header] = str(value)
        return attributes

    def headers(self) -> list[tuple[str, bytes]]:
        return [(header, value.encode()) for header, value in self.attributes().items()]


def envelope_from(headers: Iterable[tuple[str, bytes]]) -> Envelope:
    """Parses the envelope in a record's headers, ignoring unknown headers. Raises ``PoisonMessage``."""
    try:
        fields = {_HEADERS[name]: value.decode() for name, value in headers if name in _HEADERS and value is not None}
    except ValueError as problem:
        raise PoisonMessage(f"unreadable envelope: {problem}") from problem
    return _checked(fields)


def envelope_from_attributes(attributes: Mapping[str, str]) -> Envelope:
    """Parses the result of ``Envelope.attributes``, ignoring unknown attributes. Raises ``PoisonMessage``."""
    return _checked({_HEADERS[header]: value for header, value in attributes.items() if header in _HEADERS})


def _checked(fields: dict[str, str]) -> Envelope:
    """Raises ``PoisonMessage`` if attributes are missing or invalid."""
    try:
        text = "".join(fields.values())
        sequence = int(fields.pop("sequence", "0"))
    except (ValueError, TypeError) as problem:
        raise PoisonMessage(f"unreadable envelope: {problem}") from problem
    if missing := _REQUIRED - fields.keys():
        raise PoisonMessage(f"missing envelope attributes: {', '.join(sorted(missing))}")
    # Databases can't store NUL, so the message would be retried forever and block its key.
    if "\0" in text:
        raise PoisonMessage("unreadable envelope: an attribute contains a NUL character")
    return Envelope(sequence=sequence, **fields)


class Message(BaseModel):
    """The payload of a message on the bus. Unknown fields are ignored, so that new fields can be added."""

    # Tracebacks in logs contain error messages, which would otherwise quote the payload.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    TYPE: ClassVar[str]
    TOPIC: ClassVar[Topic]

    def encode(self) -> bytes:
        return self.model_dump_json().encode()

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Parses a payload. Raises ``pydantic.ValidationError`` if it doesn't match this model."""
        return cls.model_validate_json(payload)


class Event(Message):
    """An event. ``type`` is ``aes.<service>.<name>.v<version>``. ``topic`` defaults to the service's events topic."""

    def __init_subclass__(cls, type: str = "", topic: Topic | None = None) -> None:
        super().__init_subclass__()
        if type:
            cls.TYPE, cls.TOPIC = type, topic or topic_of(_service(type), TopicKind.EVENTS)


class Command(Message):
    """A request to a service. It ends with exactly one terminal event: one of the ``outcomes``, or a rejection.

    ``subject`` names the field with the ID of the entity that the command is about. If ``subject`` is omitted, the
    command creates an entity, which gets the command's ID.
    """

    OUTCOMES: ClassVar[tuple[type[Event], ...]] = ()
    SUBJECT: ClassVar[str] = ""

    def __init_subclass__(
        cls,
        type: str = "",
        outcomes: "tuple[type[Event], ...]" = (),
        topic: Topic | None = None,
        subject: str = "",
    ) -> None:
        super().__init_subclass__()
        if type:
            cls.TYPE, cls.TOPIC = type, topic or topic_of(_service(type), TopicKind.COMMANDS)
            cls.OUTCOMES, cls.SUBJECT = outcomes, subject

    def subject(self) -> str | None:
        """Returns the ID of the entity that the command is about, or None if the command creates it."""
        return getattr(self, self.SUBJECT) if self.SUBJECT else None

    @classmethod
    def rejected_type(cls) -> str:
        """Returns the type of the command's rejection event, such as ``aes.runtime.execute_turn.rejected.v1``."""
        name, version = cls.TYPE.rsplit(".", 1)
        return f"{name}.rejected.{version}"

    @classmethod
    def outcome_types(cls) -> frozenset[str]:
        """Returns the types of the command's possible terminal events."""
        return frozenset({cls.rejected_type(), *(outcome.TYPE for outcome in cls.OUTCOMES)})


class BodyCommand(Command):
    """A command that contains a request body. Fields that the caller omitted are omitted on the bus, too."""

    def encode(self) -> bytes:
        return self.model_dump_json(exclude_unset=True).encode()


class CommandRejected(Event):
    """The service rejected a command or gave up on it. The command changed nothing.

    The event's type is the command's type with ``.rejected`` inserted before the version.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "expired": {
            "error": {
                "type": "timeout_error",
                "message": "The command expired before it was accepted. Nothing was changed. Send it again.",
            }
        }
    }

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class MessageContext:
    """The attributes that all messages of a unit of work share.

    ``causation_id`` is the ID of the command or event that started the work. ``traceparent`` defaults to the current
    trace. ``owner_id`` is the user who can see the events, or None if everyone in the company can.
    """

    company_id: str
    correlation_id: str
    causation_id: str | None = None
    traceparent: str | None = None
    owner_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The caller of a command, and the context of the resulting events."""

    command_id: str
    identity: Identity
    message: MessageContext
    time: str


@dataclass(frozen=True, slots=True)
class Draft:
    """An event or command to be recorded in the outbox.

    ``sequence`` is the message's number within its subject. If ``sequence`` is None, the outbox allocates the number
    under a lock on the subject. Only ``….rejected`` events need ``type`` and ``topic``, since they share one class.

    ``encoded`` is the payload, if it's already encoded. ``identity`` is a command's caller. ``cause`` is the exception
    behind an internal error; it's recorded for operators and never sent.
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
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A received event."""

    envelope: Envelope
    payload: bytes


def public_name(message_type: str) -> str:
    """Returns the event name used over SSE and WebSocket: ``turn.completed`` for ``aes.runtime.turn.completed.v1``."""
    parts = message_type.split(".")
    return ".".join(parts[2:-1]) if len(parts) > 3 else message_type


def event_models() -> dict[str, type[Event]]:
    """Returns the models of all published events, by type."""
    return {model.TYPE: model for model in _concrete(Event)}


def command_models() -> dict[str, type[Command]]:
    """Returns the models of all commands, by type."""
    return {model.TYPE: model for model in _concrete(Command)}


def _concrete(base: type[Any]) -> list[type[Any]]:
    found = []
    for child in base.__subclasses__():
        found.extend(_concrete(child))
        if "TYPE" in vars(child):
            found.append(child)
    return found


def _service(message_type: str) -> str:
    return message_type.split(".")[1]
