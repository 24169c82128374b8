"""Fields of OpenAI's requests for responses: every one of the client is honoured or refused by name."""

from typing import Any, get_type_hints

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import ValidationError

from services.gateway.entrypoints.openai.response_request import (
    UNSUPPORTED,
    WITHOUT_EFFECT,
    CreateResponse,
    response_head,
)
from services.gateway.entrypoints.openai.said_before import is_instruction, said_in, with_question


def test_every_field_of_the_client_is_honoured_or_refused() -> None:
    known = {*get_type_hints(ResponseCreateParamsBase), "stream"}
    honoured = set(CreateResponse.model_fields)
    assert honoured | set(WITHOUT_EFFECT) | UNSUPPORTED == known
    assert not honoured & (set(WITHOUT_EFFECT) | UNSUPPORTED)
    assert not set(WITHOUT_EFFECT) & UNSUPPORTED


@pytest.mark.parametrize("field", sorted({*UNSUPPORTED, *WITHOUT_EFFECT, "of_a_newer_client"}))
def test_a_field_that_would_do_nothing_is_refused_by_name(field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        CreateResponse.model_validate({"model": "m", "input": "Hello", field: "anything"}, strict=True)
    assert [error["loc"] for error in refused.value.errors()] == [(field,)]


@pytest.mark.parametrize("field", sorted({*UNSUPPORTED, *WITHOUT_EFFECT}))
def test_null_asks_for_nothing(field: str) -> None:
    assert CreateResponse.model_validate({"model": "m", field: None}, strict=True).model == "m"


def test_the_response_says_again_what_was_asked_for() -> None:
    asked: dict[str, Any] = {
        "model": "m",
        "input": "Hello",
        "instructions": "Be brief.",
        "background": True,
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "temperature": 1,
        "top_p": 0.5,
        "max_output_tokens": 5,
        "metadata": {"a": "b"},
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "p",
    }
    body = CreateResponse.model_validate(asked, strict=True)
    head = response_head(body.options("m", "And polite."), 1)
    own = {name: head[name] for name in asked if name not in ("input", "tools", "text")}
    assert own == {name: value for name, value in asked.items() if name in own}
    assert head["tools"][0]["name"] == "f"
    assert head["text"]["format"] == asked["text"]["format"]
    assert head["metadata"] == {"a": "b"}


def test_items_come_back_as_the_client_parsed_them() -> None:
    text = {"type": "output_text", "text": "{}", "annotations": [], "logprobs": None, "parsed": {"zone": "UTC"}}
    message = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [text],
        "phase": None,
    }
    called = {
        "type": "function_call", "id": "fc", "call_id": "c", "name": "clock", "arguments": "{}", "status": "completed",
        "parsed_arguments": {"zone": "UTC"}, "namespace": None, "caller": None, "async": None,
    }  # fmt: skip
    output = {"type": "function_call_output", "call_id": "c", "output": "noon", "acknowledged": None}

    items = CreateResponse.model_validate({"model": "m", "input": [message, called, output]}, strict=True).items

    assert [type(item).__name__ for item in items] == ["MessageInput", "FunctionCall", "FunctionCallOutput"]
    with pytest.raises(ValidationError) as refused:
        CreateResponse.model_validate({"model": "m", "input": [{**message, "mood": "good"}]}, strict=True)
    assert refused.value.errors()[-1]["loc"][-1] == "mood"


def test_as_many_functions_are_taken_as_openai_takes() -> None:
    tools = [{"type": "function", "name": f"f{number}"} for number in range(129)]
    taken = CreateResponse.model_validate({"model": "m", "tools": tools[:128]}, strict=True)
    assert len(taken.options("m", "").client_tools or ()) == 128
    with pytest.raises(ValidationError):
        CreateResponse.model_validate({"model": "m", "tools": tools}, strict=True)


def test_without_a_message_of_the_user_the_last_instruction_is_the_question() -> None:
    """AutoGen and others choose the next speaker with a single message of role ``system``."""
    input_items = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Who is next?"}]
    asked = with_question(CreateResponse.model_validate({"input": input_items}).items)
    assert said_in(asked).question == "Who is next?"
    assert [item.text for item in asked if is_instruction(item)] == ["Be brief."]
    kept = [*input_items, {"role": "user", "content": "Hello!"}]
    asked = with_question(CreateResponse.model_validate({"input": kept}).items)
    assert said_in(asked).question == "Hello!"
    assert [item.text for item in asked if is_instruction(item)] == ["Be brief.", "Who is next?"]
