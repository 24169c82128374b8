"""Base classes of commands and events, and the register of their types."""

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict

from libs.contracts.errors import ErrorInfo
from libs.contracts.topics import Topic, TopicKind, topic_of


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
    """Something that happened, in past tense.

    ``type`` is ``aes.<service>.<name>.v<version>``; ``topic`` is by default the events topic of that service.
    """

    def __init_subclass__(cls, type: str = "", topic: Topic | None = None) -> None:
        super().__init_subclass__()
        if type:
            cls.TYPE, cls.TOPIC = type, topic or topic_of(_service(type), TopicKind.EVENTS)


class Command(Message):
    """A request to a service, which answers it with exactly one of the ``outcomes`` or a rejection.

    ``type`` and ``topic`` as for events.
    """

    OUTCOMES: ClassVar[tuple[type[Event], ...]] = ()

    def __init_subclass__(
        cls, type: str = "", outcomes: "tuple[type[Event], ...]" = (), topic: Topic | None = None
    ) -> None:
        super().__init_subclass__()
        if type:
            cls.TYPE, cls.TOPIC = type, topic or topic_of(_service(type), TopicKind.COMMANDS)
            cls.OUTCOMES = outcomes

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

    error: ErrorInfo


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
