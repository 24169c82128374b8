"""Messages on the bus: their envelope, the base classes of commands and events, and what is known of one on its way.

The envelope is CloudEvents 1.0 in Kafka's binary mode: attributes in headers, the payload alone as value.
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


class MalformedEnvelope(ValueError):
    """The headers of a record aren't a valid envelope."""


# One is made for every message that is read: a frozen one would take two and a half times as long.
@dataclass(slots=True, kw_only=True)
class Envelope:
    """The attributes of a message, readable without decoding its value.

    ``subject`` is the id of the entity that the message is about. ``sequence`` counts the events of a subject from 1;
    it is 0 on commands, and deltas have that of the preceding event. ``identity`` is the gateway-signed caller, which
    ``signature`` binds to this one command (commands only). ``owner_id`` is the only user who may see the event, apart
    from those who read the whole company; without it the whole company may.
    ``data_ref`` and ``data_hash`` replace a payload too large for the bus: a path of the owner's internal
    API and the SHA-256 of the bytes there.
    """

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
        """The headers as text."""
        attributes = {"ce_specversion": "1.0"}
        for header, name in _HEADERS.items():
            value = getattr(self, name)
            if value is not None:
                attributes[header] = str(value)
        return attributes

    def headers(self) -> list[tuple[str, bytes]]:
        return [(header, value.encode()) for header, value in self.attributes().items()]


def envelope_from(headers: Iterable[tuple[str, bytes]]) -> Envelope:
    """Reads the envelope in a record's headers, ignoring unknown ones. Raises ``MalformedEnvelope``."""
    try:
        fields = {_HEADERS[name]: value.decode() for name, value in headers if name in _HEADERS and value is not None}
    except ValueError as problem:
        raise MalformedEnvelope(f"unreadable envelope: {problem}") from problem
    return _checked(fields)


def envelope_from_attributes(attributes: Mapping[str, str]) -> Envelope:
    """The inverse of ``Envelope.attributes``, ignoring unknown ones. Raises ``MalformedEnvelope``."""
    return _checked({_HEADERS[header]: value for header, value in attributes.items() if header in _HEADERS})


def _checked(fields: dict[str, str]) -> Envelope:
    """The envelope of attributes by the names of their fields. Raises ``MalformedEnvelope``."""
    try:
        text = "".join(fields.values())
        sequence = int(fields.pop("sequence", "0"))
    except (ValueError, TypeError) as problem:
        raise MalformedEnvelope(f"unreadable envelope: {problem}") from problem
    if missing := _REQUIRED - fields.keys():
        raise MalformedEnvelope(f"missing envelope attributes: {', '.join(sorted(missing))}")
    # No database stores NUL: such a message would be retried for ever and block its key.
    if "\0" in text:
        raise MalformedEnvelope("unreadable envelope: an attribute has a NUL character")
    return Envelope(sequence=sequence, **fields)


class Message(BaseModel):
    """A payload on the bus. Unknown fields are ignored: contracts grow by addition."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    TYPE: ClassVar[str]
    TOPIC: ClassVar[Topic]

    def encode(self) -> bytes:
        return self.model_dump_json().encode()

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises ``pydantic.ValidationError`` for anything that is not this message."""
        return cls.model_validate_json(payload)


class Event(Message):
    """An event, named in the past tense.

    ``type`` is ``aes.<service>.<name>.v<version>``; ``topic`` is by default the events topic of that service.
    """

    def __init_subclass__(cls, type: str = "", topic: Topic | None = None) -> None:
        super().__init_subclass__()
        if type:
            cls.TYPE, cls.TOPIC = type, topic or topic_of(_service(type), TopicKind.EVENTS)


class Command(Message):
    """A request to a service, which answers it with exactly one of the ``outcomes`` or a rejection.

    ``type`` and ``topic`` as for events. ``subject`` names the field with the id of the entity that the command is
    about; without it the command makes one, which gets the command's id.
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
        """The id of the entity that it is about, None for the command's own."""
        return getattr(self, self.SUBJECT) if self.SUBJECT else None

    @classmethod
    def rejected_type(cls) -> str:
        """``aes.runtime.execute_turn.v1`` is refused by ``aes.runtime.execute_turn.rejected.v1``."""
        name, version = cls.TYPE.rsplit(".", 1)
        return f"{name}.rejected.{version}"

    @classmethod
    def outcome_types(cls) -> frozenset[str]:
        """The types of the terminal events, one of which ends this command."""
        return frozenset({cls.rejected_type(), *(outcome.TYPE for outcome in cls.OUTCOMES)})


class CommandRejected(Event):
    """The owner refused a command, or gave it up; nothing was changed by it.

    Its type is the command's with ``.rejected`` before the version, so the class itself has none.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "expired": {
            "error": {
                "type": "timeout_error",
                "message": "The command expired before it was accepted; nothing was done.",
            }
        }
    }

    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class MessageContext:
    """Tenant, correlation, cause and trace of the messages that a piece of work emits.

    ``causation_id`` is the id of the command or event that the work began with. Without a ``traceparent`` it is the
    trace in which the messages are stored. ``owner_id`` is the user who may see the events beside those who read the
    whole company; None when the whole company may.
    """

    company_id: str
    correlation_id: str
    causation_id: str | None = None
    traceparent: str | None = None
    owner_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommandContext:
    """A command's caller and the context of its events. ``message.causation_id`` is the command's id."""

    command_id: str
    identity: Identity
    message: MessageContext
    time: str


@dataclass(frozen=True, slots=True)
class Draft:
    """An event or command about to be recorded in the outbox.

    ``sequence`` counts the subject's messages from 1; left out, it is allocated under the subject's lock.
    ``type`` and ``topic`` are given only for ``….rejected`` events, whose class serves many types. ``encoded`` is the
    payload when the caller has the bytes already. ``identity`` is the caller in whose name a command is sent; events
    have none. ``cause`` of an event that reports an internal error is kept for operators and not sent.
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
    """An event from the bus."""

    envelope: Envelope
    payload: bytes


def public_name(message_type: str) -> str:
    """The name on SSE and WebSocket: ``aes.runtime.turn.completed.v1`` → ``turn.completed``."""
    parts = message_type.split(".")
    return ".".join(parts[2:-1]) if len(parts) > 3 else message_type


def event_models() -> dict[str, type[Event]]:
    """Every published event model by type."""
    return {model.TYPE: model for model in _concrete(Event)}


def command_models() -> dict[str, type[Command]]:
    """Every command model by type."""
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
