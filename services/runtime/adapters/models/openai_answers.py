"""Decodes chat completions from OpenAI-compatible servers. Tolerates missing and unusual fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from libs.json_text import (
    NotJson,
    PairedText,
    is_deeper,
    read_json,
    without_half_pairs,
    without_half_pairs_in,
    write_json,
)
from services.runtime.adapters.models.failures import ErrorInBody, error_in
from services.runtime.domain.conversation import JsonObject, ModelAnswer, ToolCall, Usage, token_count

# Fields of a message or call, used by DeepSeek and similar servers, OpenRouter, Gemini and LiteLLM, in this order.
_FIELDS: Final = (
    "reasoning_content", "reasoning", "reasoning_details", "extra_content", "provider_specific_fields",
    "thinking_blocks",
)  # fmt: skip
# Fields that arrive in pieces. Other fields arrive whole, and some are repeated in each chunk.
_IN_PIECES: Final = frozenset(("reasoning_content", "reasoning", "text", "summary", "data", "thinking"))
# orjson can only write 254 levels, a quarter of what it reads.
_DEEPEST: Final = 64


def _provider_data_of(message: Mapping[str, Any]) -> JsonObject:
    """Returns the provider-specific fields, such as reasoning, of a message, a call or a chunk of them."""
    return {name: value for name in _FIELDS if (value := message.get(name)) and not is_deeper(value, _DEEPEST)}


def _merged_provider_data(chunks: Sequence[JsonObject]) -> JsonObject | None:
    merged: JsonObject = without_half_pairs_in(_merged("", chunks)) if chunks else {}
    return merged or None


def _merged(name: str, values: Sequence[Any]) -> Any:
    """Merges a field's values in the chunks of an answer. A value of another type replaces the earlier ones."""
    last = values[-1]
    begin = next((n for n in range(len(values), 0, -1) if type(values[n - 1]) is not type(last)), 0)
    alike = values[begin:]
    if isinstance(last, str) and name in _IN_PIECES:
        return "".join(alike)
    if isinstance(last, dict):
        members: dict[str, list[Any]] = {}
        for key, value in chain.from_iterable(each.items() for each in alike):
            if value is not None:
                members.setdefault(key, []).append(value)
        return {key: _merged(key, found) for key, found in members.items()}
    if isinstance(last, list):
        items: dict[tuple[bool, Any], list[Any]] = {}
        for number, item in enumerate(chain.from_iterable(alike)):
            index = item.get("index") if isinstance(item, dict) else None
            items.setdefault((index is None, number if index is None else repr(index)), []).append(item)
        return [_merged("", found) for found in items.values()]
    return last


class NotAnAnswer(ValueError):
    """The response isn't a chat completion. The message explains why."""


def decode_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """Decodes a tool call. If the arguments aren't a JSON object, the call has a `validation_error`."""
    try:
        parsed = read_json(arguments) if arguments.strip() else {}
    except NotJson as error:
        return ToolCall(call_id, name, {}, validation_error=f"the arguments aren't valid JSON: {error}")
    if parsed is None:
        parsed = {}
    if not isinstance(parsed, dict):
        return ToolCall(call_id, name, {}, validation_error="the arguments aren't a JSON object")
    if arguments.count("[") + arguments.count("{") > _DEEPEST and is_deeper(parsed, _DEEPEST):
        return ToolCall(
            call_id, name, {}, validation_error=f"the arguments are nested more than {_DEEPEST} levels deep"
        )
    return ToolCall(call_id, name, parsed)


def _call_parts(call: Mapping[str, Any]) -> tuple[str, str, str]:
    """Returns the call's ID, name and arguments, or "" for missing ones. Raises NotAnAnswer."""
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments")
    # Some servers send the arguments as an object instead of a JSON string.
    written = arguments if isinstance(arguments, str) else _written(arguments)
    return _string(call.get("id")), _string(function.get("name")), written


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _written(arguments: Any) -> str:
    if arguments is None:
        return ""
    try:
        return write_json(arguments).decode()
    except TypeError as error:
        raise NotAnAnswer("a call's arguments are nested too deeply") from error


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    provider_data: list[JsonObject] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        try:
            return isinstance(read_json("".join(self.arguments)), dict)
        except NotJson:
            return False

    def is_another(self, call_id: str, name: str, arguments: str) -> bool:
        """Returns whether a fragment starts another call rather than continuing this one.

        A different ID or name starts a call, and so does a repeated name after complete arguments.
        """
        if call_id and self.id:
            return call_id != self.id
        if name and self.name:
            return name != self.name or (bool(arguments) and self.is_complete)
        return False


class _StreamedCalls:
    """Joins the fragments of an answer's tool calls.

    A fragment belongs to the newest call with the same index or ID. With neither, it continues the newest call.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def take(self, fragments: Sequence[JsonObject]) -> None:
        """Adds one chunk's fragments, which all belong to different calls. Raises NotAnAnswer."""
        taken: list[_Call] = []
        for position, fragment in enumerate(fragments):
            call_id, name, arguments = _call_parts(fragment)
            index = _index(fragment.get("index"))
            call = self._begun(index, call_id)
            if index is None and not call_id and len(fragments) > 1:
                # Without an index or ID, only the order shows which call each fragment continues.
                continued = not name and len(fragments) <= len(self._calls)
                call = self._calls[position - len(fragments)] if continued else call
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
            if data := _provider_data_of(fragment):
                call.provider_data.append(data)

    def _begun(self, index: int | None, call_id: str) -> _Call | None:
        """Returns the call with this index. Without an index, returns the call with this ID, or else the newest one."""
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
                provider_data=_merged_provider_data(call.provider_data),
            )
            for call in self._calls
        )


def _index(value: Any) -> int | None:
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def decode_answer(payload: bytes) -> ModelAnswer:
    """Decodes a completion. Raises NotAnAnswer, or ErrorInBody if a response with status 200 contains an error."""
    body = _parsed(payload, "the response")
    choices = _objects(body.get("choices"))
    if not choices:
        raise NotAnAnswer("the response doesn't contain any choices")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise NotAnAnswer("the response doesn't contain a message")
    calls = tuple(
        replace(decode_call(*_call_parts(call)), provider_data=_provider_data_of(call) or None)
        for call in _objects(message.get("tool_calls"))
    )
    text = _text(message.get("content")) or _text(message.get("refusal"))
    reason = "tool_calls" if calls else _text(choices[0].get("finish_reason")) or "stop"
    data = _provider_data_of(message) or None
    return ModelAnswer(text, calls, _usage(body.get("usage")), reason, provider_data=data)


def _parsed(payload: bytes, what: str, *, keep_half_pairs: bool = False) -> JsonObject:
    try:
        body = read_json(payload, nan_as_null=True, keep_half_pairs=keep_half_pairs)
    except NotJson as error:
        raise NotAnAnswer(f"{what} isn't JSON") from error
    if (refusal := error_in(body)) is not None:
        raise ErrorInBody(refusal)
    if not isinstance(body, dict):
        raise NotAnAnswer(f"{what} isn't a JSON object")
    return body


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    texts = (part.get("text") for part in _objects(value))
    return "".join(text for text in texts if isinstance(text, str))


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage(model_calls=1)
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(
        token_count(usage.get("prompt_tokens")),
        token_count(usage.get("completion_tokens")),
        token_count(cached),
        model_calls=1,
    )


def _newer(before: Usage, usage: Usage) -> Usage:
    """Returns the latest token counts. If a count is missing or zero, its earlier value is kept."""
    return Usage(
        usage.input_tokens or before.input_tokens,
        usage.output_tokens or before.output_tokens,
        usage.cached_tokens or before.cached_tokens,
        model_calls=1,
    )


class StreamedAnswer:
    """Assembles the chunks of a streamed completion into an answer."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._paired = PairedText()
        self._calls = _StreamedCalls()
        self._provider_data: list[JsonObject] = []
        self._usage = Usage(model_calls=1)
        self._finish_reason = ""
        self._ended = False
        self._begun = False

    @property
    def complete(self) -> bool:
        """Whether the server has signaled the end of the stream. If it never does, the connection was lost."""
        return self._ended or bool(self._finish_reason)

    def take(self, data: bytes) -> str:
        """Adds the data of one event and returns the new text in it. Raises NotAnAnswer or ErrorInBody."""
        if data == b"[DONE]":
            self._ended = True
            return ""
        chunk = _parsed(data, "a chunk of the response", keep_half_pairs=True)
        choices = _objects(chunk.get("choices"))
        # Moonshot reports usage within the choice.
        for holder in (*choices[:1], chunk):
            self._usage = _newer(self._usage, _usage(holder.get("usage")))
        return self._take_choice(choices[0]) if choices else ""

    def _take_choice(self, choice: JsonObject) -> str:
        self._begun = True
        self._finish_reason = without_half_pairs(_text(choice.get("finish_reason"))) or self._finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return ""
        self._calls.take(_objects(delta.get("tool_calls")))
        if data := _provider_data_of(delta):
            self._provider_data.append(data)
        return self._append_text(self._paired.take(_text(delta.get("content")) or _text(delta.get("refusal"))))

    def finish(self) -> str:
        """Returns the rest of the text, which was held back because it ended in half a surrogate pair."""
        return self._append_text(self._paired.finish())

    def _append_text(self, text: str) -> str:
        if text:
            self._text.append(text)
        return text

    def answer(self) -> ModelAnswer:
        """Returns the assembled answer. Raises NotAnAnswer if no chunk contained a choice."""
        if not self._begun:
            raise NotAnAnswer("the response doesn't contain any choices")
        calls = self._calls.calls()
        reason = "tool_calls" if calls else self._finish_reason or "stop"
        data = _merged_provider_data(self._provider_data)
        return ModelAnswer("".join(self._text), calls, self._usage, reason, provider_data=data)
