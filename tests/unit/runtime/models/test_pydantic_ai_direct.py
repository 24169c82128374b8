import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, ToolReturnPart, UserPromptPart
from pydantic_ai.messages import TextPart as TheirText
from pydantic_ai.messages import ThinkingPart as TheirThinking
from pydantic_ai.messages import ToolCallPart as TheirCall
from pydantic_ai.models import infer_model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage
from structlog.testing import capture_logs

from libs.contracts.resources.turns import ModelSettings, NamedTool, TurnOptions
from libs.retry import RetryPolicy
from services.runtime.adapters.models import pydantic_ai_translation
from services.runtime.adapters.models.known_providers import OTHERS, OtherProvider
from services.runtime.adapters.models.pydantic_ai_direct import PydanticAIDirect
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.domain.conversation import (
    AssistantMessage,
    ImagePart,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from services.runtime.domain.conversation_json import answer_from_json, answer_to_json
from services.runtime.domain.models import ModelFailed, ModelRequest
from tests.servers.model_stub import TEXT, ModelStub
from tests.support.agent_fakes import said


@pytest.fixture
def groq(stub: ModelStub, retry: RetryPolicy, monkeypatch: pytest.MonkeyPatch) -> PydanticAIDirect:
    """A real provider's client, talking to the stub."""
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret-1234")
    monkeypatch.setenv("GROQ_BASE_URL", stub.base_url.removesuffix("/v1"))
    return PydanticAIDirect("groq", retry)


def asking(name: str = "stub", *, tools: bool = False) -> ModelRequest:
    return ModelRequest(f"groq:{name}", "Be kind.", (said("Hi"),), tools=(Calculator.definition,) if tools else ())


class Pretending:
    """A model of pydantic-ai in this process, which replies in order, and what it was given."""

    def __init__(self, *replies: list[ModelResponsePart]) -> None:
        self.replies = list(replies)
        self.seen: list[tuple[list[ModelMessage], AgentInfo]] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append((messages, info))
        return ModelResponse(self.replies.pop(0) if self.replies else [TheirText("ok")], provider_name="x")


def direct(retry: RetryPolicy, reply: Any = None, **functions: Any) -> PydanticAIDirect:
    return PydanticAIDirect("x", retry, infer=lambda _name: FunctionModel(reply, **functions))


HI = ModelRequest("x:y", "", (said("Hi"),))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_answers(groq: PydanticAIDirect, stub: ModelStub, stream: bool) -> None:
    pieces: list[str] = []
    answer = await groq.answer(asking(), pieces.append if stream else None)
    assert answer.text == TEXT
    assert "".join(pieces) == (TEXT if stream else "")
    # This provider streams its usage in a field of its own, which the stub does not have.
    assert (answer.usage.output_tokens, answer.usage.model_calls) == (0 if stream else 80, 1)
    assert answer.finish_reason == "stop"
    assert stub.requests[0]["messages"][0] == {"role": "system", "content": "Be kind."}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_calls_tools(groq: PydanticAIDirect, stream: bool) -> None:
    answer = await groq.answer(asking("stub-tool", tools=True), (lambda _text: None) if stream else None)
    assert answer.tool_calls == (ToolCall("call_0_0", "calculator", {"expression": "6*7"}),)
    assert answer.finish_reason == "tool_calls"


async def test_failures_are_retried_by_the_adapter_alone(
    groq: PydanticAIDirect, stub: ModelStub, waits: list[float]
) -> None:
    assert (await groq.answer(asking("stub-flaky-2"))).text == TEXT
    assert stub.calls["stub-flaky-2"] == 3
    assert waits == [0.5, 1.0]
    with pytest.raises(ModelFailed) as failure:
        await groq.answer(asking("stub-error-500"))
    assert stub.calls["stub-error-500"] == 4
    assert failure.value.status == 500
    assert "secret" not in failure.value.message


DRAWN = "data:image/png;base64,iVBORw0KGgo="


async def test_the_conversation_is_translated(retry: RetryPolicy) -> None:
    reply = Pretending()
    conversation = (
        UserMessage((TextPart("Look"), ImagePart("https://example.com/a.png", "low"), ImagePart(DRAWN, "high"))),
        AssistantMessage("hm", (ToolCall("1", "a", {"x": 1}), ToolCall("2", "b", {}))),
        ToolMessage(ToolResult("1", "a", "fine")),
        ToolMessage(ToolResult("2", "b", "broken", "failed")),
    )
    asked = ModelRequest("x:y", "sys", conversation, (Calculator.definition,), answer_in_text=True)
    answer = await direct(retry, reply).answer(replace(asked, settings=ModelSettings(temperature=0.5)))

    [(messages, info)] = reply.seen
    assert answer.text == "ok"
    assert [message.kind for message in messages] == ["request", "response", "request"]
    [told] = [part for part in messages[0].parts if isinstance(part, UserPromptPart)]
    details = [getattr(each, "vendor_metadata", None) for each in told.content]
    assert details == [None, {"detail": "low"}, {"detail": "high"}]
    returned = [part for part in messages[2].parts if isinstance(part, ToolReturnPart)]
    results = [(part.tool_call_id, part.content, part.outcome) for part in returned]
    assert results == [("1", "fine", "success"), ("2", "broken", "failed")]
    assert info.instructions == "sys"
    assert [tool.name for tool in info.function_tools] == ["calculator"]
    assert info.model_settings["tool_choice"] == "none"
    assert info.model_settings["temperature"] == 0.5


async def test_a_stream_that_fails_after_text_is_not_begun_again(retry: RetryPolicy) -> None:
    begun = 0

    async def stream(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        nonlocal begun
        begun += 1
        yield "Hel"
        raise ModelHTTPError(503, "x", {"message": "gone"})

    pieces: list[str] = []
    with pytest.raises(ModelFailed):
        await direct(retry, stream_function=stream).answer(HI, pieces.append)
    assert (begun, pieces) == (1, ["Hel"])


async def test_a_provider_without_credentials_is_a_model_error(
    retry: RetryPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers learn that it is so, operators which variable is missing."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with capture_logs() as logs, pytest.raises(ModelFailed) as failed:
        await PydanticAIDirect("anthropic", retry).answer(ModelRequest("anthropic:x", "", (said("Hi"),)))
    assert failed.value.message == (
        "anthropic: the provider isn't configured for this model; ask an operator to check the runtime's log"
    )
    [line] = [each for each in logs if each["event"] == "model.not_usable"]
    assert "ANTHROPIC_API_KEY" in line["problem"]


async def test_options_of_a_turn_are_translated(groq: PydanticAIDirect, stub: ModelStub) -> None:
    request = asking(tools=True)
    named = ModelSettings(tool_choice=NamedTool(name="calculator"), stop=["END"])
    await groq.answer(replace(request, settings=named))
    one_call = ModelSettings(tool_choice="required", parallel_tool_calls=False)
    await groq.answer(replace(request, settings=one_call))
    await groq.answer(replace(request, settings=one_call, answer_in_text=True))
    first, second, third = stub.requests
    assert first["tool_choice"] in ({"type": "function", "function": {"name": "calculator"}}, "required")
    assert (first["stop"], second["tool_choice"], second["parallel_tool_calls"]) == (["END"], "required", False)
    assert "parallel_tool_calls" not in third


_KEYS = ("GROQ", "CEREBRAS", "MOONSHOTAI", "TOGETHER", "FIREWORKS", "MISTRAL", "ANTHROPIC", "GOOGLE")
_OURS = {name: name for name in TurnOptions.model_fields} | {"stop_sequences": "stop"}


@pytest.mark.parametrize("provider", OTHERS, ids=lambda provider: provider.name)
def test_the_options_that_a_provider_ignores_are_known(
    provider: OtherProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in _KEYS:
        monkeypatch.setenv(f"{name}_API_KEY", "key")
    model = infer_model(provider.models[0].name if provider.models else f"{provider.name}:some-model")
    ignored = {_OURS[setting] for setting in model._unsupported_settings() if setting in _OURS}
    assert provider.ignores == ignored


PRICE = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}


async def test_an_output_schema_is_given_natively_where_the_model_takes_it(
    groq: PydanticAIDirect, stub: ModelStub
) -> None:
    request = replace(asking("openai/gpt-oss-20b"), settings=ModelSettings(output_schema=PRICE))
    await groq.answer(request)
    await groq.answer(replace(request, tools=(Calculator.definition,)))
    await groq.answer(replace(request, settings=ModelSettings(output_schema={"type": "array"})))
    native, beside_tools, no_object = stub.requests
    assert native["response_format"]["json_schema"]["schema"]["properties"] == PRICE["properties"]
    assert native["messages"][0]["content"] == "Be kind."
    for body in (beside_tools, no_object):
        assert "response_format" not in body
        assert "JSON Schema" in body["messages"][0]["content"]


@pytest.mark.parametrize(("provider", "native"), [("anthropic", True), ("google", True), ("mistral", False)])
def test_models_differ_in_whether_they_take_it(provider: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "key")
    name = next(each for each in OTHERS if each.name == provider).models[0].name
    request = replace(asking(), model=name, settings=ModelSettings(output_schema=PRICE))
    assert pydantic_ai_translation.takes_schema(infer_model(name), request) is native


async def test_half_pairs_are_joined_or_replaced(retry: RetryPolicy) -> None:
    async def stream(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        for piece in ("\ud83d", "\ude00", "\ud83d"):
            yield piece

    pieces: list[str] = []
    answer = await direct(retry, stream_function=stream).answer(HI, pieces.append)
    assert answer.text == "".join(pieces) == "😀�"

    calls = [TheirCall("f", {"a": ["\ud83d"]}, "1"), TheirCall("f", r'{"a": "\ud83d"}', "2")]
    answer = pydantic_ai_translation.answer(ModelResponse([TheirText("\ud83d"), *calls]))
    assert (answer.text, [call.arguments for call in answer.tool_calls]) == ("�", [{"a": ["�"]}, {"a": "�"}])


async def test_reasoning_and_signatures_go_back_to_the_provider(retry: RetryPolicy) -> None:
    parts: list[ModelResponsePart] = [
        TheirThinking("Hm.", signature="sig", provider_name="x"),
        TheirText("Let me ask."),
        TheirCall("f", '{"a": 1}', "1", provider_details={"thought_signature": "s"}),
    ]
    reply = Pretending(parts)
    model = direct(retry, reply)
    answer = answer_from_json(json.loads(json.dumps(answer_to_json(await model.answer(HI)))))
    given = AssistantMessage(answer.text, answer.tool_calls, answer.provider_data)
    asked = replace(HI, messages=(said("Hi"), given, ToolMessage(ToolResult("1", "f", "fine"))))
    final = await model.answer(asked)
    sent = reply.seen[1][0][1]
    assert isinstance(sent, ModelResponse)
    assert list(sent.parts) == [*parts[:2], replace(parts[2], args={"a": 1})]
    assert (sent.provider_name, final.provider_data) == ("x", None)

    broken = replace(given, provider_data={"response": {"kind": "unknown"}})
    await model.answer(replace(asked, messages=(said("Hi"), broken, asked.messages[2])))
    assert [part.part_kind for part in reply.seen[2][0][1].parts] == ["text", "tool-call"]


def test_counts_of_tokens_can_be_stored() -> None:
    for number in (-1, float("nan"), float("inf"), 2**63, 10**19):
        usage = RequestUsage(input_tokens=number, output_tokens=3)  # type: ignore[arg-type]
        usage.cache_read_tokens = 1.0  # type: ignore[assignment]
        counted = pydantic_ai_translation.answer(ModelResponse([TheirText("Hi.")], usage=usage)).usage
        assert counted == Usage(0, 3, 1, model_calls=1), number


async def test_a_provider_that_says_when_to_come_back_is_a_limit(retry: RetryPolicy) -> None:
    def reply(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(429, "x", {"detail": "slow down"}, retry_after=3600)

    with pytest.raises(ModelFailed) as failed:
        await direct(retry, reply).answer(HI)
    info = failed.value.info()
    assert (info.type, info.retry_after, info.message) == ("rate_limit_error", 3600, "x: status 429: slow down")


async def test_callers_learn_nothing_of_the_network(retry: RetryPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret-1234")
    monkeypatch.setenv("GROQ_BASE_URL", "http://127.0.0.1:9")
    with capture_logs() as logs, pytest.raises(ModelFailed) as told:
        await PydanticAIDirect("groq", retry).answer(asking())
    assert told.value.message == "groq: the connection failed"
    assert all("127.0.0.1:9" in line["address"] for line in logs if line["event"] == "model.connection_failed")
    assert "gsk-secret-1234" not in str(logs)
