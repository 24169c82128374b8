import json
from typing import Any

import orjson
import pytest

from libs.contracts.resources.turns import ModelSettings, NamedTool
from services.runtime.adapters.models.openai_compatible import encode_request
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.domain.conversation import AssistantMessage, ToolCall
from services.runtime.domain.models import ModelRequest
from services.runtime.domain.tools import ToolDefinition
from tests.support.agent_fakes import said


def encoded(*tools: ToolDefinition, answer_in_text: bool = False, **settings: Any) -> dict[str, Any]:
    request = ModelRequest(
        "openai:x", "", (said("Hi"),), tools, settings=ModelSettings(**settings), answer_in_text=answer_in_text
    )
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
    call = ToolCall("c", "f", {}, provider_data={"extra_content": {"google": {"thought_signature": "sig"}}})
    messages = (AssistantMessage("Hm.", (call,), {"reasoning_content": "Why?", "content": "<think>Why?</think>Hm."}),)
    request = ModelRequest("openai:x", "", (*messages, AssistantMessage("Four.", provider_data={"reasoning": "So."})))
    asking, telling = orjson.loads(encode_request(request, "x", stream=False))["messages"]
    assert (asking["reasoning_content"], asking["content"]) == ("Why?", "<think>Why?</think>Hm.")
    assert asking["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "sig"}}
    assert telling == {"role": "assistant", "content": "Four.", "reasoning": "So."}


def test_arguments_are_sent_back_with_all_their_digits() -> None:
    call = ToolCall("c", "f", {"id": 12345678901234567890123})
    request = ModelRequest("openai:x", "", (AssistantMessage("", (call,)),))
    [message] = orjson.loads(encode_request(request, "x", stream=False))["messages"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"id":12345678901234567890123}'
