"""Hides parts of turns, events and errors from public principals.

Anyone can open a page that contains a public key, so public principals see only the conversation and the calls to
client tools, which the page executes.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import orjson

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.turns import RequiredAction

_FAILED: Final = "The assistant can't answer right now. Please try again later."
_TOO_MANY: Final = "Too many requests at the moment. Please try again shortly."
_NEUTRAL: Final = {
    ErrorKind.BUDGET: _FAILED,
    ErrorKind.INTERNAL: _FAILED,
    ErrorKind.MODEL: _FAILED,
    ErrorKind.QUOTA: "No more data can be stored right now. Please try again later.",
    ErrorKind.RATE_LIMIT: _TOO_MANY,
    ErrorKind.TIMEOUT: _FAILED,
    ErrorKind.UNAVAILABLE: _FAILED,
}
"""Neutral messages for errors whose own texts describe the installation or the company."""
_TOOL: Final = "tool"
_UNCHANGED: Final = frozenset(
    {
        "artifact.progress",
        "session.deleted",
        "turn.citation.added",
        "turn.output_text.delta",
        "turn.output_text.done",
        "turn.restarted",
        "turn.started",
    }
)
_IDS: Final = ("session_id", "turn_id", "artifact_id")
_ATTRIBUTION: Final[dict[str, Any]] = {"agent_id": None, "model": "", "user_id": "", "key_id": "", "usage": {}}


def public_error(error: ErrorInfo) -> ErrorInfo:
    """Returns the error. Replaces its message with a neutral one if only the company may see the original."""
    message = _NEUTRAL.get(error.type)
    if error.type is ErrorKind.VALIDATION and not error.details:
        # The agent's model can't handle the message, but visitors mustn't learn about the model.
        message = "The assistant can't accept this message."
    if message is None:
        return error
    return error.model_copy(update={"message": message, "details": None})


def public_event(event_type: str, data: bytes, own_tools: Collection[str] = ()) -> bytes:
    """Returns the visible part of an event's payload. ``own_tools``: the tools that the visitor's client defines."""
    if event_type in _UNCHANGED:
        return data
    given: dict[str, Any] = orjson.loads(data)
    if event_type == "turn.tool_call.started" and given["name"] in own_tools:
        return data
    show = _VIEWS.get(event_type, _ids_of)
    return orjson.dumps(_without_causes(show(given)))


def public_turn(turn: dict[str, Any]) -> dict[str, Any]:
    """Returns the visible part of a turn's state."""
    shown = {name: value for name, value in turn.items() if name not in ("toolsets", "options", "usage")}
    if shown.get("reply"):
        shown["reply"] = _reply(shown["reply"])
    if shown.get("required_actions"):
        shown["required_actions"] = list(map(_action, shown["required_actions"]))
    return _without_causes(_blocked(shown))


def _blocked(shown: dict[str, Any]) -> dict[str, Any]:
    """Hides the calls that need an approval in the turn that blocks this one, if any."""
    if not shown.get("blocked_by"):
        return shown
    blocking = shown["blocked_by"]
    actions = list(map(_action, blocking["required_actions"]))
    return {**shown, "blocked_by": {**blocking, "required_actions": actions}}


def public_reply(reply: bytes) -> bytes:
    """Returns the visible part of the body of an ``execute`` response."""
    return orjson.dumps(_reply(orjson.loads(reply)))


def _reply(reply: dict[str, Any]) -> dict[str, Any]:
    return {**reply, **_ATTRIBUTION, "warnings": [], "response": {**reply["response"], "tool_calls": []}}


def public_action(action: RequiredAction) -> RequiredAction:
    """Hides a call that needs an approval, because approvals concern only the company."""
    if action.kind != "approval":
        return action
    call = RequestedToolCall(id=action.tool_call.id, name=_TOOL, arguments={})
    return action.model_copy(update={"tool_call": call})


def _action(action: dict[str, Any]) -> dict[str, Any]:
    return public_action(RequiredAction.model_validate(action)).model_dump(mode="json")


def _ids_of(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in _IDS if name in event}


def _without_causes(shown: dict[str, Any]) -> dict[str, Any]:
    if not shown.get("error"):
        return shown
    error = public_error(ErrorInfo.model_validate(shown["error"]))
    return {**shown, "error": error.model_dump(mode="json", exclude_none=True)}


_VIEWS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "artifact.failed": lambda event: {**_ids_of(event), "error": event["error"]},
    "artifact.ready": lambda event: event,
    "artifact.uploaded": lambda event: {"artifact": _without_causes(event["artifact"])},
    "session.created": lambda event: {**_ids_of(event), "config_hash": event["config_hash"]},
    "session.updated": lambda event: event,
    "turn.action_required": lambda event: {**event, "action": _action(event["action"])},
    "turn.action_resolved": lambda event: {**event, "by": ""},
    "turn.cancelled": lambda event: {**event, **_ATTRIBUTION},
    "turn.completed": _reply,
    "turn.failed": lambda event: {**event, **_ATTRIBUTION},
    "turn.queued": _blocked,
    "turn.output_invalid": lambda event: {**event, "problems": []},
    "turn.tool_call.completed": lambda event: {**event, "name": _TOOL, "output": ""},
    "turn.tool_call.failed": lambda event: {**event, "name": _TOOL, "reason": ""},
    "turn.tool_call.started": lambda event: {**event, "name": _TOOL, "arguments": {}},
}
"""The functions that return the visible part of a payload, by event type. Other events only show their IDs."""
