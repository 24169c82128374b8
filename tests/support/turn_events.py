"""Events of a turn, as the runtime publishes them for a command."""

from typing import Any
from uuid import NAMESPACE_OID, uuid5

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.replies import Reply, Usage
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.turns import (
    ExecuteTurn,
    OutputTextDelta,
    RequiredAction,
    ToolCallCompleted,
    ToolCallStarted,
    Turn,
    TurnActionRequired,
    TurnActionResolved,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from libs.contracts.timestamps import now_text
from tests.support.gateway import Sent

TOOL = "shop.refund"
ORDER = {"order": 4711}


def ids(sent: Sent) -> dict[str, str]:
    assert isinstance(sent.command, ExecuteTurn)
    return {"session_id": sent.command.session_id, "turn_id": sent.command_id}


def started(sent: Sent) -> TurnStarted:
    return TurnStarted(**ids(sent), attempt=1, user_message_id="m1")


def delta(sent: Sent, text: str, offset: int = 0, *, attempt: int = 1, step: int = 1) -> OutputTextDelta:
    return OutputTextDelta(**ids(sent), attempt=attempt, step=step, offset=offset, text=text)


def called(sent: Sent, call_id: str = "c1", name: str = TOOL) -> ToolCallStarted:
    return ToolCallStarted(**ids(sent), step=1, call_id=call_id, name=name, arguments=ORDER)


def made(sent: Sent) -> ToolCallCompleted:
    return ToolCallCompleted(**ids(sent), step=1, call_id="c1", name=TOOL, output="refunded")


def action_of(call_id: str) -> str:
    """The ID of the action that a call waits for."""
    return str(uuid5(NAMESPACE_OID, call_id))


def required(sent: Sent, call_id: str = "c1", kind: Any = "approval", name: str = TOOL) -> TurnActionRequired:
    call = RequestedToolCall(id=call_id, name=name, arguments=ORDER)
    action = RequiredAction(
        action_id=action_of(call_id), kind=kind, tool_call=call, expires_at="2030-01-02T00:00:00.000000Z"
    )
    return TurnActionRequired(**ids(sent), step=1, action=action)


def resolved(sent: Sent, call_id: str = "c1", kind: Any = "approval") -> TurnActionResolved:
    decision: Any = "approve" if kind == "approval" else None
    where = {"action_id": action_of(call_id), "call_id": call_id}
    return TurnActionResolved(**ids(sent), **where, kind=kind, decision=decision, by="user-1")


def completed(sent: Sent, text: str = "Hello.", **changes: Any) -> TurnCompleted:
    """``response`` and the other fields of the reply may be changed."""
    fields = {
        **ids(sent),
        "message_id": "m2",
        "user_message_id": "m1",
        "correlation_id": sent.correlation_id,
        "usage": Usage(input_tokens=7, output_tokens=3, model_calls=1),
        "config_hash": "abc",
        **changes,
        "response": Reply.model_validate({"content": text, **changes.get("response", {})}),
    }
    return TurnCompleted.model_validate(fields)


def failed(sent: Sent) -> TurnFailed:
    return TurnFailed(**ids(sent), error=ErrorInfo(type=ErrorKind.MODEL, message="the model is ill"))


def cancelled(sent: Sent) -> TurnCancelled:
    return TurnCancelled(**ids(sent), reason="asked for")


def turn_of(**fields: Any) -> Turn:
    """The runtime's answer about a turn."""
    known = {"attempt": 1, "position": 0, "correlation_id": "label", "user_message_id": "m1", "created_at": now_text()}
    return Turn.model_validate({**known, **fields})
