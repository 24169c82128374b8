import json
from typing import Any

import orjson
import pytest

from libs.contracts.api.sessions import NamedTool
from services.runtime.adapters.models.openai_wire import StreamedAnswer, decode_answer, encode_request
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.domain.conversation import ToolCall
from services.runtime.domain.models import ModelRequest
from tests.support.agent_fakes import said


def chunk(**delta: object) -> bytes:
    return orjson.dumps({"choices": [{"index": 0, "delta": delta}]})


def fragment(arguments: str, **more: object) -> dict[str, object]:
    return {**more, "function": {"arguments": arguments, **({"name": "f"} if "id" in more else {})}}


def test_calls_that_all_have_index_zero_are_told_apart_by_id() -> None:
    stream = StreamedAnswer()
    stream.take(chunk(tool_calls=[fragment('{"a": 1}', index=0, id="one")]))
    stream.take(chunk(tool_calls=[fragment('{"a": 2}', index=0, id="two")]))
    assert stream.answer().tool_calls == (ToolCall("one", "f", {"a": 1}), ToolCall("two", "f", {"a": 2}))


def test_interleaved_fragments_are_joined_by_index() -> None:
    stream = StreamedAnswer()
    stream.take(chunk(tool_calls=[fragment("", index=0, id="one"), fragment("", index=1, id="two")]))
    for index, piece in ((0, '{"a"'), (1, '{"b"'), (0, ": 1}"), (1, ": 2}")):
        stream.take(chunk(tool_calls=[fragment(piece, index=index)]))
    assert [call.arguments for call in stream.answer().tool_calls] == [{"a": 1}, {"b": 2}]


def test_arguments_that_are_no_object_are_a_fault_of_the_call() -> None:
    for arguments in ('{"a": ', "[1]", '"text"'):
        message = {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": arguments}}]}
        call = decode_answer(orjson.dumps({"choices": [{"message": message}]})).tool_calls[0]
        assert call.validation_error is not None
        assert call.arguments == {}


def test_arguments_may_be_missing_or_an_object() -> None:
    for arguments, expected in ((None, {}), ("", {}), ({"a": 1}, {"a": 1})):
        message = {"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
        call = decode_answer(orjson.dumps({"choices": [{"message": message}]})).tool_calls[0]
        assert (call.validation_error, call.arguments) == (None, expected)


def test_a_stream_is_complete_only_when_it_says_so() -> None:
    stream = StreamedAnswer()
    stream.take(chunk(content="Hello"))
    assert not stream.complete
    stream.take(b"[DONE]")
    assert stream.complete


def encoded(**more: Any) -> dict[str, Any]:
    request = ModelRequest("openai:x", "", (said("Hi"),), **more)
    body: dict[str, Any] = orjson.loads(encode_request(request, "x", stream=False))
    return body


def test_a_plain_request_has_nothing_more() -> None:
    assert set(encoded()) == {"model", "messages"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        (NamedTool(name="calculator"), {"type": "function", "function": {"name": "calculator"}}),
    ],
)
def test_how_tools_may_be_called_is_said_with_the_tools(choice: Any, sent: Any) -> None:
    settings = {"tool_choice": choice, "parallel_tool_calls": False, "stop": ("a", "b")}
    body = encoded(tools=(Calculator.definition,), **settings)
    assert (body["tool_choice"], body["parallel_tool_calls"], body["stop"]) == (sent, False, ["a", "b"])
    # Servers refuse these settings in a request without tools.
    for body in (encoded(**settings), encoded(tools=(Calculator.definition,), answer_in_text=True, **settings)):
        assert set(body) == {"model", "messages", "stop"}


PRICE = {
    "type": "object",
    "properties": {"price": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["price", "tags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (PRICE, True),
        ({**PRICE, "required": ["price"]}, False),
        ({**PRICE, "additionalProperties": True}, False),
        ({**PRICE, "minProperties": 1}, False),
        ({**PRICE, "properties": {"price": {"type": "number", "minimum": 0}}, "required": ["price"]}, False),
        ({"type": "object"}, False),
    ],
)
def test_an_output_schema_is_the_format_of_the_response(schema: dict[str, Any], strict: bool) -> None:
    request = ModelRequest("openai:x", "Be kind.", (said("Hi"),), output_schema=schema)
    body = orjson.loads(encode_request(request, "x", stream=False, native_output=True))
    output = {"name": "output", "schema": schema, "strict": strict}
    assert body["response_format"] == {"type": "json_schema", "json_schema": output}
    assert body["messages"][0] == {"role": "system", "content": "Be kind."}


def test_without_that_it_is_asked_for_in_words() -> None:
    body = encoded(output_schema=PRICE)
    assert "response_format" not in body
    assert json.dumps(PRICE) in body["messages"][0]["content"]
