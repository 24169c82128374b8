"""Chat completions as OpenAI-compatible servers answer them, whole or in pieces.

Reading is tolerant: a missing usage, missing call ids and text as a list of parts all occur.
"""

from typing import Any

from libs.json_text import NotJson, PairedText, read_json, without_half_pairs
from services.runtime.adapters.models.openai_provider_data import (
    add_provider_data,
    finished_provider_data,
    provider_data_of,
)
from services.runtime.adapters.models.openai_tool_calls import (
    ArgumentsUnreadable,
    StreamedCalls,
    decode_calls,
)
from services.runtime.adapters.models.provider_errors import ErrorInBody, error_in
from services.runtime.domain.conversation import JsonObject, ModelAnswer, ToolCall, Usage, token_count


class NotAnAnswer(ValueError):
    """The response is no chat completion; the message tells why."""


def decode_answer(payload: bytes) -> ModelAnswer:
    """Raises NotAnAnswer, and ErrorInBody for an error that a server sent with status 200."""
    try:
        body = read_json(payload, nan_as_null=True)
    except NotJson as error:
        raise NotAnAnswer("the answer is not JSON") from error
    choice = _choice(body)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise NotAnAnswer("the answer holds no message")
    try:
        calls = decode_calls(_objects(message.get("tool_calls")))
    except ArgumentsUnreadable as error:
        raise NotAnAnswer(str(error)) from error
    text = _text(message.get("content")) or _text(message.get("refusal"))
    return ModelAnswer(
        text, calls, _usage(body.get("usage")), _finish(choice, calls), provider_data=provider_data_of(message)
    )


def _choice(body: Any) -> JsonObject:
    if (refusal := error_in(body)) is not None:
        raise ErrorInBody(refusal)
    if not isinstance(body, dict):
        raise NotAnAnswer("the answer is not a JSON object")
    choices = _objects(body.get("choices"))
    if not choices:
        raise NotAnAnswer("the answer holds no choices")
    return choices[0]


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
    """The counts of a stream so far: each chunk may have all of them, some, or zeros in place of the others."""
    return Usage(
        usage.input_tokens or before.input_tokens,
        usage.output_tokens or before.output_tokens,
        usage.cached_tokens or before.cached_tokens,
        model_calls=1,
    )


def _finish(choice: JsonObject, calls: tuple[ToolCall, ...]) -> str:
    return "tool_calls" if calls else _text(choice.get("finish_reason")) or "stop"


class StreamedAnswer:
    """Gathers the chunks of a streamed completion into an answer."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._paired = PairedText()
        self._calls = StreamedCalls()
        self._provider_data: JsonObject = {}
        self._usage = Usage(model_calls=1)
        self._finish_reason = ""
        self._ended = False
        self._begun = False

    @property
    def complete(self) -> bool:
        """Whether the stream announced its end; a connection may also just break."""
        return self._ended or bool(self._finish_reason)

    def take(self, data: bytes) -> str:
        """Takes one event's data and returns the text in it. Raises NotAnAnswer or ErrorInBody."""
        if data == b"[DONE]":
            self._ended = True
            return ""
        try:
            chunk = read_json(data, nan_as_null=True, keep_half_pairs=True)
        except NotJson as error:
            raise NotAnAnswer("a piece of the answer is not JSON") from error
        if (refusal := error_in(chunk)) is not None:
            raise ErrorInBody(refusal)
        if not isinstance(chunk, dict):
            raise NotAnAnswer("a piece of the answer is not a JSON object")
        choices = _objects(chunk.get("choices"))
        # Moonshot has it in the choice.
        for holder in (*choices[:1], chunk):
            self._usage = _newer(self._usage, _usage(holder.get("usage")))
        return self._take_choice(choices[0]) if choices else ""

    def _take_choice(self, choice: JsonObject) -> str:
        self._begun = True
        self._finish_reason = without_half_pairs(_text(choice.get("finish_reason"))) or self._finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return ""
        try:
            self._calls.take(_objects(delta.get("tool_calls")))
        except ArgumentsUnreadable as error:
            raise NotAnAnswer(str(error)) from error
        add_provider_data(self._provider_data, delta)
        return self._said(self._paired.take(_text(delta.get("content")) or _text(delta.get("refusal"))))

    def finish(self) -> str:
        """The text that no chunk has completed, once there are no more of them."""
        return self._said(self._paired.finish())

    def _said(self, text: str) -> str:
        if text:
            self._text.append(text)
        return text

    def answer(self) -> ModelAnswer:
        """Raises NotAnAnswer for a stream that ended without having begun."""
        if not self._begun:
            raise NotAnAnswer("the answer holds no choices")
        calls = self._calls.calls()
        reason = "tool_calls" if calls else self._finish_reason or "stop"
        data = finished_provider_data(self._provider_data)
        return ModelAnswer("".join(self._text), calls, self._usage, reason, provider_data=data)
