"""The messages that clients can send over a session's WebSocket."""

from typing import Any, Final, Literal

from pydantic import Field

from libs.contracts.errors import ErrorDetail, InvalidRequest, ValidationFailed
from libs.contracts.findings import required_object
from libs.contracts.models import StrictModel
from libs.contracts.resources.actions import ResolveActionBody
from libs.contracts.resources.turns import ExecuteBody
from services.gateway.entrypoints.door.bodies import validated
from services.gateway.entrypoints.door.json_text import parse_json

_Ref = Field(default=None, max_length=200)
_Id = Field(max_length=200)


class Execute(ExecuteBody):
    """A message to the agent. The events of the resulting turn contain the ``ref``."""

    type: Literal["execute"]
    idempotency_key: str | None = Field(default=None, max_length=1000)
    ref: str | None = _Ref

    def body(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the body of the equivalent REST request."""
        return {name: value for name, value in values.items() if name in ExecuteBody.model_fields}


class Cancel(StrictModel):
    """Cancels a queued, running or waiting turn."""

    type: Literal["cancel"]
    turn_id: str = _Id
    ref: str | None = _Ref


class Resolve(ResolveActionBody):
    """Resolves an open action of a turn with exactly one of ``decision``, ``output`` and ``error``."""

    type: Literal["resolve"]
    turn_id: str = _Id
    action_id: str = _Id
    ref: str | None = _Ref


class Subscribe(StrictModel):
    """Replays the messages ``after`` a position. Without ``after``, replays a running turn from its start."""

    type: Literal["subscribe"]
    after: str | None = Field(default=None, max_length=200)
    ref: str | None = _Ref


class Ping(StrictModel):
    """Checks that the connection still works."""

    type: Literal["ping"]
    ref: str | None = _Ref


ClientMessage = Execute | Cancel | Resolve | Subscribe | Ping
MODELS: Final[dict[str, type[ClientMessage]]] = {
    "execute": Execute,
    "cancel": Cancel,
    "resolve": Resolve,
    "subscribe": Subscribe,
    "ping": Ping,
}


def values_in(text: str | None) -> dict[str, Any]:
    """Raises ``InvalidRequest`` for invalid JSON, and ``ValidationFailed`` for values that can't be stored."""
    if text is None:
        raise InvalidRequest("The message was binary. Send JSON in text frames.")
    return required_object(parse_json(text))


def message_of(values: dict[str, Any]) -> ClientMessage:
    """Raises ``ValidationFailed`` for an invalid message."""
    model = MODELS.get(kind) if isinstance(kind := values.get("type"), str) else None
    if model is None:
        hint = f"use one of {', '.join(MODELS)}"
        detail = ErrorDetail(loc=["type"], type="enum", message="unknown message type", hint=hint)
        raise ValidationFailed("Invalid message: type: unknown message type.", details=[detail])
    return validated(model, values, strict=True)
