"""Converts tool names to names that providers accept."""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from libs.contracts.resources.turns import NamedTool
from services.runtime.domain.conversation import AssistantMessage, Message, ModelAnswer, ToolMessage
from services.runtime.domain.models import ChatModel, ModelRequest, OnText

LONGEST: Final = 64
_ACCEPTED: Final = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST}}}")
_OTHER: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASH_CHARACTERS: Final = 8


class ProviderToolNames:
    """Wraps a ChatModel whose tool names may only contain letters, digits, `_` and `-`. Other names are replaced."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        names = dict.fromkeys(_names(request))
        if all(_ACCEPTED.fullmatch(name) for name in names):
            return await self._model.answer(request, on_text)
        accepted = accepted_names(names)
        answer = await self._model.answer(_renamed(request, accepted), on_text)
        original = {theirs: ours for ours, theirs in accepted.items()}
        calls = tuple(replace(call, name=original.get(call.name, call.name)) for call in answer.tool_calls)
        return replace(answer, tool_calls=calls)


def accepted_names(names: Iterable[str]) -> dict[str, str]:
    """Maps each name to a unique accepted name, which doesn't depend on the order of `names`.

    Invalid characters become `_`. If the result is too long or a duplicate, part of the name's hash is appended.
    """
    wanted = {name: _OTHER.sub("_", name) or "_" for name in names}
    count = Counter(wanted.values())
    stay = {name for name in wanted if _ACCEPTED.fullmatch(name)}
    taken = stay | {candidate for candidate in wanted.values() if count[candidate] == 1}
    accepted = {}
    for name, candidate in sorted(wanted.items()):
        if name in stay or (count[candidate] == 1 and len(candidate) <= LONGEST):
            accepted[name] = candidate
            continue
        accepted[name] = next(hashed for hashed in _hashed(name, candidate) if hashed not in taken)
        taken.add(accepted[name])
    return accepted


def _hashed(name: str, candidate: str) -> Iterator[str]:
    for number in itertools.count():
        digest = hashlib.sha256(f"{name}\x00{number}".encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
        yield f"{candidate[: LONGEST - _HASH_CHARACTERS - 1]}_{digest}"


def _names(request: ModelRequest) -> Iterator[str]:
    yield from (tool.name for tool in request.tools)
    if isinstance(choice := request.settings.tool_choice, NamedTool):
        yield choice.name
    for message in request.messages:
        match message:
            case AssistantMessage(tool_calls=calls):
                yield from (call.name for call in calls)
            case ToolMessage(result):
                yield result.name


def _renamed(request: ModelRequest, names: dict[str, str]) -> ModelRequest:
    settings = request.settings
    if isinstance(settings.tool_choice, NamedTool):
        settings = settings.model_copy(update={"tool_choice": NamedTool(name=names[settings.tool_choice.name])})
    return replace(
        request,
        settings=settings,
        tools=tuple(replace(tool, name=names[tool.name]) for tool in request.tools),
        messages=tuple(_renamed_message(message, names) for message in request.messages),
    )


def _renamed_message(message: Message, names: dict[str, str]) -> Message:
    match message:
        case AssistantMessage(tool_calls=calls) if calls:
            return replace(message, tool_calls=tuple(replace(call, name=names[call.name]) for call in calls))
        case ToolMessage(result):
            return ToolMessage(replace(result, name=names[result.name]))
    return message
