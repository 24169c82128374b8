"""Requests and answers of models in OpenAI's form."""

import json
from typing import Any

import orjson
import pytest

from libs.contracts.resources.turns import ModelSettings, NamedTool
from services.runtime.adapters.models.openai_answers import StreamedAnswer, decode_answer
from services.runtime.adapters.models.openai_compatible import encode_request
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.domain.conversation import AssistantMessage, ModelAnswer, ToolCall, Usage
from services.runtime.domain.models import ModelRequest
from services.runtime.domain.tools import ToolDefinition
from tests.support.agent_fakes import said


def chunk(**delta: object) -> bytes:
    return orjson.dumps({"choices": [{"index": 0, "delta": delta}]})


def fragment(arguments: str, **more: object) -> dict[str, object]:
    return {**more, "function": {"arguments": arguments, **({"name": "f"} if "id" in more else {})}}


def named(arguments: object, name: str = "f", **more: object) -> dict[str, object]:
    return {**more, "function": {"name": name, "arguments": arguments}}


def streamed(*chunks: bytes) -> StreamedAnswer:
    stream = StreamedAnswer()
    for each in chunks:
        stream.take(each)
    return stream


def whole(**message: object) -> ModelAnswer:
    return decode_answer(orjson.dumps({"choices": [{"message": message}]}))


ONE, TWO = {"a": 1}, {"a": 2}
CALLS: dict[str, tuple[list[list[dict[str, object]]], list[tuple[str, str, dict[str, object]]]]] = {
    "index 0 always, told apart by id": (
        [[fragment('{"a": 1}', index=0, id="one")], [fragment('{"a": 2}', index=0, id="two")]],
        [("one", "f", ONE), ("two", "f", TWO)],
    ),
    "interleaved by index": (
        [[named("", index=0, id="one"), named("", index=1, id="two")], [fragment('{"a"', index=0)],
         [fragment('{"a"', index=1)], [fragment(": 1}", index=0)], [fragment(": 2}", index=1)]],
        [("one", "f", ONE), ("two", "f", TWO)],
    ),
    "without index and id after a second call": (
        [[named("", index=0, id="one")], [named("", index=1, id="two")], [fragment('{"a"')], [fragment(": 2}")]],
        [("one", "f", {}), ("two", "f", TWO)],
    ),
    "index 0 always, ids at first only": (
        [[named("", index=0, id="one")], [fragment('{"a": 1}', index=0)], [named("", index=0, id="two")],
         [fragment('{"a"', index=0)], [fragment(": 2}", index=0)]],
        [("one", "f", ONE), ("two", "f", TWO)],
    ),
    "the id on each fragment, no index": (
        [[named("", id="one")], [{"id": "one", "function": {"arguments": '{"a": 1}'}}], [named("", id="two")],
         [{"id": "two", "function": {"arguments": '{"a"'}}], [{"id": "two", "function": {"arguments": ": 2}"}}]],
        [("one", "f", ONE), ("two", "f", TWO)],
    ),
    "interleaved by id, index 0 always": (
        [[named('{"a"', id="one", index=0)], [named('{"a"', id="two", index=0)],
         [named(": 1}", id="one", index=0)], [named(": 2}", id="two", index=0)]],
        [("one", "f", ONE), ("two", "f", TWO)],
    ),
    "whole calls in chunks of their own": (
        [[named('{"a": 1}')], [named('{"a": 2}')], [named("{}", "g")]],
        [("", "f", ONE), ("", "f", TWO), ("", "g", {})],
    ),
    "whole calls in chunks of their own, index 0 always": (
        [[named('{"a": 1}', index=0)], [named('{"a": 2}', index=0)], [named(TWO, "g", index=0)]],
        [("", "f", ONE), ("", "f", TWO), ("", "g", TWO)],
    ),
    "several fragments in a chunk without anything": (
        [[named("", "f"), named("", "f")], [fragment('{"a": 1}'), fragment('{"a": 2}')]],
        [("", "f", ONE), ("", "f", TWO)],
    ),
    "the index as text": (
        [[named("", index="0", id="one"), named("", index="1", id="two")], [fragment('{"a": 1}', index="0")],
         [fragment('{"a": 2}', index="1")]],
        [("one", "f", ONE), ("two", "f", TWO)],
    ),
    "one id for all, told apart by index": (
        [[named("", index=0, id="same")], [named('{"a": 2}', index=1, id="same")], [fragment('{"a": 1}', index=0)]],
        [("same", "f", ONE), ("same", "f", TWO)],
    ),
    "name and id on each fragment": (
        [[named('{"a"', index=0, id="one")], [named(": 1}", index=0, id="one")], [named("", index=0, id="one")]],
        [("one", "f", ONE)],
    ),
    "the name once more at the end": ([[named('{"a": 1}', index=0)], [named("", index=0)]], [("", "f", ONE)]),
    "name and id late": (
        [[fragment("", index=0)], [named('{"a": 1}', index=0)], [{"index": 0, "id": "one"}]], [("one", "f", ONE)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", CALLS)
def test_each_fragment_belongs_to_one_call(how: str) -> None:
    chunks, expected = CALLS[how]
    stream = streamed(*(chunk(tool_calls=fragments) for fragments in chunks))
    assert stream.answer().tool_calls == tuple(ToolCall(*call) for call in expected)


def test_arguments_may_be_missing_or_an_object_and_what_is_none_is_a_fault_of_the_call() -> None:
    for arguments, expected in ((None, {}), ("", {}), ({"a": 1}, {"a": 1})):
        [call] = whole(tool_calls=[named(arguments)]).tool_calls
        assert (call.validation_error, call.arguments) == (None, expected)
    for text in ('{"a": ', "[1]", '"text"'):
        [call] = whole(tool_calls=[named(text, id="1")]).tool_calls
        assert call.validation_error is not None
        assert call.arguments == {}


def test_a_stream_is_complete_only_when_it_says_so() -> None:
    stream = streamed(chunk(content="Hello"))
    assert not stream.complete
    stream.take(b"[DONE]")
    assert stream.complete


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((rb"\ud83d", rb"\ude00"), "😀"),
        ((rb"a \ud83d", rb"\ude00 b"), "a 😀 b"),
        ((rb"\ud83d", b"b"), "�b"),
        ((rb"\ude00",), "�"),
        ((rb"a\ud83d",), "a�"),
    ],
)
def test_pairs_that_are_split_over_chunks_are_joined(pieces: tuple[bytes, ...], text: str) -> None:
    stream = StreamedAnswer()
    said = [stream.take(b'{"choices": [{"delta": {"content": "' + piece + b'"}}]}') for piece in pieces]
    assert "".join([*said, stream.finish()]) == stream.answer().text == text


def test_half_pairs_in_names_and_arguments_are_replaced() -> None:
    call = (
        rb'{"id": "\ud83d", "function": {"name": "f\ud83d", "arguments": "{\"a\": \"\ud83d\\ud83d\\ud83d\\ude00\"}"}}'
    )
    expected = (ToolCall("�", "f�", {"a": "��😀"}),)
    answer = decode_answer(rb'{"choices": [{"message": {"content": "\ud83d", "tool_calls": [' + call + b"]}}]}")
    assert (answer.text, answer.tool_calls) == ("�", expected)
    answer = streamed(
        rb'{"choices": [{"delta": {"tool_calls": [' + call + rb']}, "finish_reason": "\ud83d"}]}'
    ).answer()
    assert (answer.tool_calls, answer.finish_reason) == (expected, "tool_calls")


def test_arguments_that_are_split_within_a_pair_are_joined() -> None:
    begins, ends = b'{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "', b'"}}]}}]}'
    stream = streamed(begins + rb"{\"a\": \"\ud83d" + ends, begins + rb"\ude00\"}" + ends)
    assert [call.arguments for call in stream.answer().tool_calls] == [{"a": "😀"}]


EXTRA = {"google": {"thought_signature": "sig"}}


def test_what_a_server_needs_back_is_kept_with_a_whole_answer() -> None:
    call = named("{}", id="c", extra_content=EXTRA, type="function")
    answer = whole(content=None, tool_calls=[call], reasoning_content="Hm.", annotations=[], reasoning=None)
    assert answer.provider_data == {"reasoning_content": "Hm."}
    assert answer.tool_calls == (ToolCall("c", "f", {}, provider_data={"extra_content": EXTRA}),)


def test_what_a_server_needs_back_is_gathered_from_a_stream() -> None:
    detail = {"type": "reasoning.text", "index": 0, "format": "x"}
    encrypted = {"type": "reasoning.encrypted", "index": 1, "data": "d"}
    answer = streamed(
        chunk(reasoning_content="H", reasoning_details=[{**detail, "text": "H"}]),
        chunk(reasoning_content="m.", reasoning_details=[{**detail, "text": "m.", "signature": "s"}]),
        chunk(reasoning_details=[encrypted]),
        chunk(tool_calls=[{**fragment("{", index=0, id="c"), "extra_content": EXTRA}]),
        chunk(tool_calls=[{**fragment("}", index=0), "extra_content": None}]),
    ).answer()
    details = [{**detail, "text": "Hm.", "signature": "s"}, encrypted]
    assert answer.provider_data == {"reasoning_content": "Hm.", "reasoning_details": details}
    assert answer.tool_calls == (ToolCall("c", "f", {}, provider_data={"extra_content": EXTRA}),)


def test_what_is_nested_too_deeply_to_be_kept_is_left_out() -> None:
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    said = {"content": "Hi.", "reasoning_details": deep, "reasoning": "Hm."}
    for answer in (whole(**said), streamed(chunk(**said)).answer()):
        assert answer.provider_data == {"reasoning": "Hm."}


@pytest.mark.parametrize(
    ("chunks", "usage"),
    [
        ([{"prompt_tokens": 7, "completion_tokens": 3}, {"prompt_tokens": 0, "completion_tokens": 0}], (7, 3, 0)),
        ([{"prompt_tokens": 7}, {"completion_tokens": 3}], (7, 3, 0)),
        ([{"prompt_tokens": 7, "completion_tokens": 1}, {"prompt_tokens": 7, "completion_tokens": 3}], (7, 3, 0)),
        ([{"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 2}}, {"completion_tokens": 3}], (7, 3, 2)),
        ([{"prompt_tokens": 7.0, "completion_tokens": 3.5}], (7, 3, 0)),
        ([{"prompt_tokens": "7", "completion_tokens": "many"}], (7, 0, 0)),
        ([{"prompt_tokens": 7}, None, {"completion_tokens": [3]}, "3"], (7, 0, 0)),
    ],
)
def test_usage_is_gathered_from_all_chunks(chunks: list[object], usage: tuple[int, int, int]) -> None:
    stream = streamed(*(orjson.dumps({"choices": [{"delta": {"content": "x"}}], "usage": each}) for each in chunks))
    assert stream.answer().usage == Usage(*usage, model_calls=1)


def test_usage_in_a_choice_is_taken() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    assert streamed(orjson.dumps({"choices": [{"delta": {}, "usage": usage}]})).answer().usage == Usage(7, 3, 0, 1)


def test_numbers_that_cannot_be_meant_count_nothing() -> None:
    for number in (b"-1", b"NaN", b"Infinity", b"1e400", b"9223372036854775808", b"10000000000000000000"):
        body = b'"usage": {"prompt_tokens": ' + number + b', "completion_tokens": 3}}'
        answer = decode_answer(b'{"choices": [{"message": {"content": "Hi."}}], ' + body)
        stream = streamed(b'{"choices": [{"delta": {"content": "Hi."}}], ' + body)
        assert answer.usage == stream.answer().usage == Usage(0, 3, model_calls=1), number


def test_arguments_keep_all_their_digits() -> None:
    number = 12345678901234567890123
    text = '{"id": 12345678901234567890123, "all": [-12345678901234567890123]}'
    [call] = whole(tool_calls=[named(text)]).tool_calls
    assert call == ToolCall("", "f", {"id": number, "all": [-number]})
    bare = '{"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": ' + text + "}}]}}]}"
    assert decode_answer(bare.encode()).tool_calls == (call,)


def encoded(*tools: ToolDefinition, answer_in_text: bool = False, **settings: Any) -> dict[str, Any]:
    request = ModelRequest(
        "openai:x", "", (said("Hi"),), tools, settings=ModelSettings(**settings), answer_in_text=answer_in_text
    )
    body: dict[str, Any] = orjson.loads(encode_request(request, "x", stream=False))
    return body


def test_how_tools_may_be_called_is_said_with_the_tools() -> None:
    assert set(encoded()) == {"model", "messages"}, "a plain request has nothing more"
    named_tool = {"type": "function", "function": {"name": "calculator"}}
    for choice, sent in (("required", "required"), (NamedTool(name="calculator"), named_tool)):
        settings = {"tool_choice": choice, "parallel_tool_calls": False, "stop": ["a", "b"]}
        body = encoded(Calculator.definition, **settings)
        assert (body["tool_choice"], body["parallel_tool_calls"], body["stop"]) == (sent, False, ["a", "b"])
        # Servers refuse these settings in a request without tools.
        for body in (encoded(**settings), encoded(Calculator.definition, answer_in_text=True, **settings)):
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
    request = ModelRequest("openai:x", "Be kind.", (said("Hi"),), settings=ModelSettings(output_schema=schema))
    body = orjson.loads(encode_request(request, "x", stream=False, native_output=True))
    output = {"name": "output", "schema": schema, "strict": strict}
    assert body["response_format"] == {"type": "json_schema", "json_schema": output}
    assert body["messages"][0] == {"role": "system", "content": "Be kind."}


def test_without_that_it_is_asked_for_in_words() -> None:
    body = encoded(output_schema=PRICE)
    assert "response_format" not in body
    assert json.dumps(PRICE) in body["messages"][0]["content"]


def test_what_a_server_sent_beside_an_answer_is_sent_back() -> None:
    call = ToolCall("c", "f", {}, provider_data={"extra_content": EXTRA})
    messages = (AssistantMessage("Hm.", (call,), {"reasoning_content": "Why?", "content": "<think>Why?</think>Hm."}),)
    request = ModelRequest("openai:x", "", (*messages, AssistantMessage("Four.", provider_data={"reasoning": "So."})))
    asking, telling = orjson.loads(encode_request(request, "x", stream=False))["messages"]
    assert (asking["reasoning_content"], asking["content"]) == ("Why?", "<think>Why?</think>Hm.")
    assert asking["tool_calls"][0]["extra_content"] == EXTRA
    assert telling == {"role": "assistant", "content": "Four.", "reasoning": "So."}


def test_arguments_are_sent_back_with_all_their_digits() -> None:
    call = ToolCall("c", "f", {"id": 12345678901234567890123})
    request = ModelRequest("openai:x", "", (AssistantMessage("", (call,)),))
    [message] = orjson.loads(encode_request(request, "x", stream=False))["messages"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"id":12345678901234567890123}'
