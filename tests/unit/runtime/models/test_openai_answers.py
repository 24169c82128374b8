import orjson

from services.runtime.adapters.models.openai_answers import StreamedAnswer, decode_answer
from services.runtime.domain.conversation import ToolCall


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
