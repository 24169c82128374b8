"""Parses the input of a run: new messages, answers, and settings for the turn."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import (
    AssistantMessage,
    DeveloperMessage,
    ImagePart,
    ResumeEntry,
    RunAgentInput,
    SystemMessage,
    TextPart,
    Tool,
    ToolMessage,
    UrlSource,
    UserMessage,
)
from pydantic import TypeAdapter, ValidationError

from libs.contracts.errors import PermissionDenied, invalid_field, validation_message
from libs.contracts.resources.actions import ResolveActionBody
from libs.contracts.resources.messages import MessageBlocks
from libs.contracts.resources.turns import RequiredAction, TurnOptions
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.bodies import validated
from services.gateway.entrypoints.door.image_bodies import Found

_BLOCKS: Final[TypeAdapter[MessageBlocks]] = TypeAdapter(MessageBlocks)
_MAX_THREAD_ID: Final = 1000
_MIN_SECRET: Final = 32
_WITHDRAWN: Final = "The user dismissed the question without answering it."


@dataclass(frozen=True, slots=True)
class Tail:
    """The messages after the agent's last message. ``results``: the results of the client's tools, by call ID."""

    users: Sequence[UserMessage]
    results: Mapping[str, ToolMessage]


def run_input(values: Any, caller: Principal) -> RunAgentInput:
    """Parses a run's input. Raises ``ValidationFailed`` for invalid input, or for a visitor's guessable thread ID."""
    given = validated(RunAgentInput, values)
    if not 1 <= len(given.thread_id) <= _MAX_THREAD_ID:
        raise invalid_field(["threadId"], f"must have 1 to {_MAX_THREAD_ID} characters")
    # Checked here, before a session is opened.
    users = [message for message in given.messages if isinstance(message, UserMessage)]
    if not users:
        raise invalid_field(["messages"], "must contain a user message")
    content_of(users[-1:])
    # Visitors share one identity, so with a guessable thread ID, one visitor could read another's messages.
    if caller.public is not None and min(len(given.thread_id), len(given.run_id)) < _MIN_SECRET:
        raise invalid_field(
            ["threadId"], f"must be a random string of at least {_MIN_SECRET} characters, and so must runId"
        )
    return given


def find_image_data(part: dict[str, Any]) -> Found | None:
    """Returns the image in a part of a message, or None."""
    source = part.get("source")
    if part.get("type") != "image" or not isinstance(source, dict):
        return None
    given, by_url = source.get("value"), source.get("type") == "url"
    if not isinstance(given, str) or (by_url and given[:5].lower() != "data:"):
        return None
    return Found(given, ("source", "value"), lambda url: part.update(source={"type": "url", "value": url}))


def tail_of(given: RunAgentInput, unfinished: str | None = None) -> Tail:
    """Returns the messages since the agent's last message.

    ``unfinished``: the ID of a turn without a reply. The turn's messages don't count as the agent's.
    """
    users: list[UserMessage] = []
    results: dict[str, ToolMessage] = {}
    for message in reversed(given.messages):
        if isinstance(message, AssistantMessage) and not (unfinished and message.id.startswith(f"{unfinished}.")):
            break
        if isinstance(message, UserMessage):
            users.insert(0, message)
        elif isinstance(message, ToolMessage):
            results[message.tool_call_id] = message
    return Tail(users, results)


def new_of(users: Sequence[UserMessage], unanswered: Sequence[str]) -> Sequence[UserMessage]:
    """Returns the messages that the session lacks. ``unanswered``: the session's user messages since the last reply."""
    texts = [_text_of(user) for user in users]
    known = min(len(texts), len(unanswered))
    while known and list(unanswered[-known:]) != texts[:known]:
        known -= 1
    return users[known:]


def content_of(users: Sequence[UserMessage]) -> str | MessageBlocks:
    """Converts the user's messages into the content of a turn."""
    if len(users) == 1 and isinstance(users[0].content, str):
        blocks: Any = [{"type": "text", "text": users[0].content}]
    else:
        blocks = [block for number, user in enumerate(users) for block in _blocks(user, number)]
    try:
        return _BLOCKS.validate_python(blocks)
    except ValidationError as problem:
        found = problem.errors(include_url=False)[0]
        raise invalid_field(["messages", "content", *found["loc"]], validation_message(found)) from None


def answers_of(
    given: RunAgentInput, tail: Tail, open_actions: Collection[RequiredAction]
) -> dict[str, ResolveActionBody]:
    """Returns the answers by action ID, from tool results and resumed interrupts."""
    resumed = {entry.interrupt_id: entry for entry in given.resume or ()}
    answers: dict[str, ResolveActionBody] = {}
    for action in open_actions:
        result, entry = tail.results.get(action.tool_call.id), resumed.get(action.action_id)
        if action.kind == "tool_result" and result is not None:
            answers[action.action_id] = _result(result)
        elif entry is not None:
            answers[action.action_id] = _resumption(action, entry)
    return answers


def options_of(given: RunAgentInput, caller: Principal, own_tools: Sequence[Mapping[str, Any]]) -> TurnOptions | None:
    """Returns the turn's options: instructions, forwarded properties, and the client's tools.

    Omits tools that share a name with one of the agent's ``own_tools``. Raises ``PermissionDenied`` if a visitor sets
    any option.
    """
    own = {tool["name"] for tool in own_tools}
    named = [tool for tool in given.tools or () if tool.name not in own]
    instructions = "\n\n".join(_instructions(given))
    forwarded = given.forwarded_props
    if not (named or instructions or forwarded):
        return None
    if caller.public is not None:
        raise PermissionDenied(
            "A public key can't send tools, system or developer messages, context or forwardedProps. Omit them"
            " to use the agent's settings."
        )
    if forwarded is not None and not isinstance(forwarded, dict):
        raise invalid_field(["forwardedProps"], "must be an object with turn options")
    options = dict(forwarded or {})
    if named:
        options["client_tools"] = [*map(_tool, named), *own_tools]
    if instructions:
        options["instructions"] = "\n\n".join(filter(None, (options.get("instructions"), instructions)))
    return validated(TurnOptions, options)


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters or {}}


def _instructions(given: RunAgentInput) -> Iterator[str]:
    for message in given.messages:
        if isinstance(message, SystemMessage | DeveloperMessage) and message.content.strip():
            yield message.content
    for context in given.context or ():
        yield f"{context.description}:\n{context.value}"


def _result(message: ToolMessage) -> ResolveActionBody:
    if message.error:
        return ResolveActionBody(error=message.error)
    if isinstance(message.content, str):
        return ResolveActionBody(output=message.content)
    return ResolveActionBody(output=[part.model_dump(mode="json", by_alias=True) for part in message.content])


def _resumption(action: RequiredAction, entry: ResumeEntry) -> ResolveActionBody:
    if entry.status == "cancelled":
        if action.kind == "tool_result":
            return ResolveActionBody(error=_WITHDRAWN)
        return ResolveActionBody(decision="deny", reason=_WITHDRAWN)
    return validated(ResolveActionBody, entry.payload)


def _text_of(user: UserMessage) -> str:
    """Returns a message's text as the session stores it."""
    if isinstance(user.content, str):
        return user.content
    return "\n".join(part.text for part in user.content if isinstance(part, TextPart))


def _blocks(user: UserMessage, number: int) -> Iterator[dict[str, Any]]:
    if isinstance(user.content, str):
        yield {"type": "text", "text": user.content}
        return
    for index, part in enumerate(user.content):
        if isinstance(part, TextPart):
            yield {"type": "text", "text": part.text}
        elif isinstance(part, ImagePart) and isinstance(part.source, UrlSource):
            yield {"type": "image_url", "image_url": {"url": part.source.value}}
        else:
            raise invalid_field(["messages", number, "content", index], "must be text or an image")
