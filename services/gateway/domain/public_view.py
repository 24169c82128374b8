"""Turns, events and errors as public principals see them.

Anyone can open a page that contains a public key, so its view is limited to the conversation. It leaves out tools and
their results, models, costs, the company's users and keys, and error texts meant for operators. Calls of client tools
stay, since the page runs them.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import orjson

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.turns import RequiredAction

_FAILED: Final = "The assistant cannot answer right now. Please try again later."
_TOO_MANY: Final = "There are too many requests right now. Please try again in a moment."
_NEUTRAL: Final = {
    ErrorKind.BUDGET: _FAILED,
    ErrorKind.INTERNAL: _FAILED,
    ErrorKind.MODEL: _FAILED,
    ErrorKind.QUOTA: "Nothing more can be stored right now.",
    ErrorKind.RATE_LIMIT: _TOO_MANY,
    ErrorKind.TIMEOUT: _FAILED,
    ErrorKind.UNAVAILABLE: _FAILED,
}
"""Kinds whose texts describe the installation or the company; others are about the visitor's request."""
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
    """The error with a neutral message where its own is for the owner. The correlation ID stays, for reference."""
    message = _NEUTRAL.get(error.type)
    if error.type is ErrorKind.VALIDATION and not error.details:
        # The message doesn't fit the agent's model, which visitors don't know of.
        message = "The assistant cannot accept this message."
    if message is None:
        return error
    return error.model_copy(update={"message": message, "details": None})


def public_event(event_type: str, data: bytes, own_tools: Collection[str] = ()) -> bytes:
    """The payload of an event by its public name. ``own_tools``: tools named by the visitor's client."""
    if event_type in _UNCHANGED:
        return data
    given: dict[str, Any] = orjson.loads(data)
    if event_type == "turn.tool_call.started" and given["name"] in own_tools:
        return data
    show = _VIEWS.get(event_type, _ids_of)
    return orjson.dumps(_without_causes(show(given)))


def public_turn(turn: dict[str, Any]) -> dict[str, Any]:
    """A turn's state."""
    shown = {name: value for name, value in turn.items() if name not in ("toolsets", "options", "usage")}
    if shown.get("reply"):
        shown["reply"] = _reply(shown["reply"])
    if shown.get("required_actions"):
        shown["required_actions"] = list(map(_action, shown["required_actions"]))
    return _without_causes(_blocked(shown))


def _blocked(shown: dict[str, Any]) -> dict[str, Any]:
    """A queued turn, or the event about it."""
    if not shown.get("blocked_by"):
        return shown
    blocking = shown["blocked_by"]
    actions = list(map(_action, blocking["required_actions"]))
    return {**shown, "blocked_by": {**blocking, "required_actions": actions}}


def public_reply(reply: bytes) -> bytes:
    """The body of an ``execute`` response."""
    return orjson.dumps(_reply(orjson.loads(reply)))


def _reply(reply: dict[str, Any]) -> dict[str, Any]:
    return {**reply, **_ATTRIBUTION, "warnings": [], "response": {**reply["response"], "tool_calls": []}}


def public_action(action: RequiredAction) -> RequiredAction:
    """An approval without its call, which only concerns the company; the page runs the other calls."""
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
"""The public view of events by type; other events show only their IDs."""
