"""Tool calls of chat completions: decoded, and put together from the fragments of a stream.

Servers differ in how they tell fragments of calls apart: by index, which may be a text or 0 for all of them, by id, or
only by the order in which they come.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from libs.json_text import NotJson, is_deeper, read_json, without_half_pairs, write_json
from services.runtime.adapters.models.openai_provider_data import (
    add_provider_data,
    finished_provider_data,
    provider_data_of,
)
from services.runtime.domain.conversation import JsonObject, ToolCall

# orjson writes 250 levels, half of what it reads.
_DEEPEST: Final = 64


class ArgumentsUnreadable(ValueError):
    """The arguments of a call were sent as a value that cannot be kept."""


def decode_calls(calls: Sequence[JsonObject]) -> tuple[ToolCall, ...]:
    """The calls of a whole answer. Raises ArgumentsUnreadable."""
    return tuple(replace(decode_call(*call_parts(call)), provider_data=provider_data_of(call)) for call in calls)


def decode_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """Arguments that are no JSON object are a fault of the call."""
    try:
        parsed = read_json(arguments) if arguments.strip() else {}
    except NotJson as error:
        return ToolCall(call_id, name, {}, validation_error=f"the arguments are not valid JSON: {error}")
    if parsed is None:
        parsed = {}
    if not isinstance(parsed, dict):
        return ToolCall(call_id, name, {}, validation_error="the arguments are not a JSON object")
    if arguments.count("[") + arguments.count("{") > _DEEPEST and is_deeper(parsed, _DEEPEST):
        return ToolCall(call_id, name, {}, validation_error=f"the arguments are nested deeper than {_DEEPEST} levels")
    return ToolCall(call_id, name, parsed)


def call_parts(call: Mapping[str, Any]) -> tuple[str, str, str]:
    """Id, name and arguments as text; empty where they are missing. Raises ArgumentsUnreadable."""
    function = call.get("function")
    if not isinstance(function, dict):
        return _text(call.get("id")), "", ""
    arguments = function.get("arguments")
    # Some servers send the arguments as an object instead of its text.
    return (
        _text(call.get("id")),
        _text(function.get("name")),
        arguments if isinstance(arguments, str) else _written(arguments),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _written(arguments: Any) -> str:
    if arguments is None:
        return ""
    try:
        return write_json(arguments).decode()
    except TypeError as error:
        raise ArgumentsUnreadable("the arguments of a call are nested too deeply") from error


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    provider_data: JsonObject = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        try:
            return isinstance(read_json("".join(self.arguments)), dict)
        except NotJson:
            return False

    def is_another(self, call_id: str, name: str, arguments: str) -> bool:
        """Whether a fragment begins another call: its id or name differs, or its name comes again after the end."""
        if call_id and self.id:
            return call_id != self.id
        if name and self.name:
            return name != self.name or (bool(arguments) and self.is_complete)
        return False


class StreamedCalls:
    """Joins the fragments of the calls of one answer.

    A fragment belongs to the newest call, with an index or id to the newest call of that index or id.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def take(self, fragments: Sequence[JsonObject]) -> None:
        """Takes the fragments of one chunk, which are of different calls. Raises ArgumentsUnreadable."""
        taken: list[_Call] = []
        for place, fragment in enumerate(fragments):
            call_id, name, arguments = call_parts(fragment)
            index = _index(fragment.get("index"))
            call = self._begun(index, call_id)
            if index is None and not call_id and len(fragments) > 1:
                # Nothing but the order tells which call each fragment goes on with.
                continued = not name and len(fragments) <= len(self._calls)
                call = self._calls[place - len(fragments)] if continued else call
                call = None if any(call is other for other in taken) else call
            if call is None:
                call = (None if name else self._of_id(call_id)) or self._begin()
            elif call.is_another(call_id, name, arguments):
                call = self._of_id(call_id) or self._begin()
            if index is not None:
                self._by_index[index] = call
            taken.append(call)
            call.id = call.id or call_id
            call.name = call.name or name
            if arguments and arguments != "null":
                call.arguments.append(arguments)
            add_provider_data(call.provider_data, fragment)

    def _begun(self, index: int | None, call_id: str) -> _Call | None:
        """The call that a fragment goes on with, as far as its index and id tell."""
        if index is not None:
            return self._by_index.get(index)
        return self._of_id(call_id) or (self._calls[-1] if self._calls else None)

    def _of_id(self, call_id: str) -> _Call | None:
        return next((call for call in reversed(self._calls) if call_id and call.id == call_id), None)

    def _begin(self) -> _Call:
        self._calls.append(_Call())
        return self._calls[-1]

    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(
            replace(
                decode_call(
                    without_half_pairs(call.id),
                    without_half_pairs(call.name),
                    without_half_pairs("".join(call.arguments)),
                ),
                provider_data=finished_provider_data(call.provider_data),
            )
            for call in self._calls
        )


def _index(value: Any) -> int | None:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
