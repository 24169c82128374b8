"""Chat completions with OpenAI's own client: what becomes of a request, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from libs.contracts.errors import ErrorDetail, ErrorInfo, ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event
from libs.contracts.resources.turns import (
    ExecuteTurn,
    TurnFailed,
    TurnRestarted,
)
from tests.support.gateway import Gateway, Sent, rejected
from tests.support.turn_events import cancelled, completed, delta, ids, required, started

CONFIGURATION = {"agent_config": {"agent_type": "llm_agent"}, "config_hash": "0" * 64, "agent_id": new_id()}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}, "strict": True}}
TEXT = {"type": "text", "text": "Hi"}
HELLO = [{"role": "user", "content": "Hello!"}]


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {**CLOCK["function"], "name": name}}  # type: ignore[dict-item]


def picture(url: str, **detail: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **detail}}


@pytest.fixture
def client(public: Gateway, openai_client: AsyncOpenAI) -> AsyncOpenAI:
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (200, CONFIGURATION)
    public.bus.upstream = answering("Good day.")
    return openai_client


Upstream = Callable[[Sent], Iterable[Event]]


def answering(text: str, **changes: Any) -> Upstream:
    return lambda sent: [started(sent), completed(sent, text, **changes)]


def command_of(public: Gateway) -> ExecuteTurn:
    command = public.bus.sent[-1].command
    assert isinstance(command, ExecuteTurn)
    return command


async def create(client: AsyncOpenAI, **fields: Any) -> Any:
    return await client.chat.completions.create(**{"model": "support", "messages": HELLO, **fields})


async def refused(client: AsyncOpenAI, **fields: Any) -> dict[str, Any]:
    with pytest.raises(openai.BadRequestError) as problem:
        await create(client, **fields)
    assert isinstance(problem.value.body, dict)
    assert set(problem.value.body) == {"message", "type", "param", "code"}
    return problem.value.body


async def test_a_reply_is_a_completion(public: Gateway, client: AsyncOpenAI) -> None:
    raw = await client.chat.completions.with_raw_response.create(model="support", messages=HELLO)  # type: ignore[arg-type]
    reply = raw.parse()
    sent = public.bus.sent[-1]
    assert reply.id == f"chatcmpl_{sent.command_id}"
    assert (reply.object, reply.model) == ("chat.completion", "support")
    [choice] = reply.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Good day.", "stop")
    assert choice.message.tool_calls is None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (7, 3, 10)
    assert raw.headers["x-turn-id"] == sent.command_id
    assert raw.headers["x-session-id"] == ids(sent)["session_id"]
    assert raw.headers["x-request-id"] == raw.headers["x-correlation-id"] == reply._request_id


async def test_messages_are_the_history_of_a_session_that_nobody_lists(public: Gateway, client: AsyncOpenAI) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, picture("https://example.org/a.png")]},
        {"role": "assistant", "content": "A ferry."},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "And now?"},
    ]
    await create(client, messages=messages, temperature=1, stop="END", max_tokens=5, user="u", n=1, seed=None)
    command = command_of(public)
    assert (command.begins.listed, command.begins.expires_after) == (False, 86400)
    assert command.begins.agent_id == CONFIGURATION["agent_id"]
    assert [message.role for message in command.begins.messages] == ["user", "assistant"]
    assert command.begins.messages[0].model_dump()["content"] == messages[1]["content"]
    assert command.content == "And now?"
    assert command.request.options.model_dump(exclude_none=True) == {
        "instructions": "Be kind.\n\nBe brief.",
        "temperature": 1,
        "stop": ["END"],
        "max_tokens": 5,
    }
    assert command.session_id != public.bus.sent[-1].command_id


async def test_a_model_is_an_agent_or_that_of_a_provider(public: Gateway, client: AsyncOpenAI) -> None:
    await create(client)
    await create(client, model="builtin:extractive")
    bare = {"name": "builtin:extractive", "agent_type": "llm_agent", "llm_config": {"model": "builtin:extractive"}}
    assert [body for *_, path, body in public.upstreams.asked if path.endswith("normalize")] == [
        {"agent_key": "support"},
        bare,
    ]
    missing = {"error": {"type": "not_found_error", "message": "no such agent"}}
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (404, missing)
    for unknown in ("nobody", "No Model", "x" * 5000):
        with pytest.raises(openai.NotFoundError) as problem:
            await create(client, model=unknown)
        assert (problem.value.code, problem.value.param) == ("model_not_found", "model")
    finding = {"loc": ["llm_config", "model"], "type": "unknown_provider", "message": "No such provider"}
    finding["hint"] = "use builtin"
    message = "llm_config.model: No such provider"
    invalid = {"error": {"type": "validation_error", "message": message, "details": [finding]}}
    public.upstreams.answers["POST", "registry", "/internal/agents/normalize"] = (422, invalid)
    with pytest.raises(openai.NotFoundError) as problem:
        await create(client, model="nothing:else")
    assert isinstance(problem.value.body, dict)
    assert problem.value.body["message"] == "No such provider. Use builtin."


async def test_an_agent_is_asked_for_once_until_it_changes(public: Gateway, client: AsyncOpenAI) -> None:
    for _ in range(3):
        await create(client)
    assert len(public.upstreams.asked_paths("normalize")) == 1
    public.api.credentials.changed(str(CONFIGURATION["agent_id"]))
    await create(client)
    assert len(public.upstreams.asked_paths("normalize")) == 2
    public.bus.is_fresh = False
    await create(client)
    assert len(public.upstreams.asked_paths("normalize")) == 3


async def test_functions_are_tools_of_the_client(public: Gateway, client: AsyncOpenAI) -> None:
    call = {"id": "c1", "name": "clock", "arguments": {"zone": "UTC"}, "status": "requested"}
    made = {"id": "c0", "name": "calculator", "arguments": {}, "status": "completed", "output": "1"}
    public.bus.upstream = answering("", finish_reason="tool_calls", response={"tool_calls": [made, call]})
    choice = {"type": "function", "function": {"name": "clock"}}
    reply = await create(client, tools=[CLOCK], tool_choice=choice, parallel_tool_calls=False)
    command = command_of(public)
    assert command.request.client_calls is not None
    assert command.request.options.model_dump(exclude_none=True) == {
        "tool_choice": {"name": "clock"},
        "parallel_tool_calls": False,
        "client_tools": [{"name": "clock", "description": "", "parameters": {"type": "object"}}],
    }
    [choice] = reply.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert [(each.id, each.function.name, each.function.arguments) for each in choice.message.tool_calls] == [
        ("c1", "clock", '{"zone":"UTC"}')
    ]
    # As the client's documentation says: the message as it came, then the results.
    again = [*HELLO, choice.message, {"role": "tool", "tool_call_id": "c1", "content": "noon"}]
    public.bus.upstream = answering("It is noon.")
    assert (await create(client, messages=again, tools=[CLOCK])).choices[0].message.content == "It is noon."
    command = command_of(public)
    assert command.content == "Hello!"
    assert command.begins.messages == []
    asked, answered = command.request.client_calls.answered
    assert [each.model_dump() for each in asked.tool_calls] == [
        {"id": "c1", "name": "clock", "arguments": {"zone": "UTC"}}
    ]
    assert (answered.role, answered.content, answered.tool_call_id) == ("tool", "noon", "c1")


class Zone(BaseModel):
    zone: str


CALLED = {"id": "c1", "name": "clock", "arguments": {"zone": "UTC"}, "status": "requested"}
STRICT_CLOCK = openai.pydantic_function_tool(Zone, name="clock")
NOON = {"role": "tool", "tool_call_id": "c1", "content": "noon", "name": "clock"}


@pytest.mark.parametrize("streamed", [False, True])
async def test_messages_come_back_as_the_client_parsed_them(
    public: Gateway, client: AsyncOpenAI, streamed: bool
) -> None:
    async def message(**fields: Any) -> Any:
        given: Any = {"model": "support", "messages": HELLO, **fields}
        if not streamed:
            return (await client.chat.completions.parse(**given)).choices[0].message
        async with client.chat.completions.stream(**given) as stream:
            return (await stream.get_final_completion()).choices[0].message

    public.bus.upstream = answering("", finish_reason="tool_calls", response={"tool_calls": [CALLED]})
    called = await message(tools=[STRICT_CLOCK])
    assert called.tool_calls[0].function.parsed_arguments == Zone(zone="UTC")
    public.bus.upstream = answering('{"zone": "UTC"}', response={"output": {"zone": "UTC"}})
    parsed = await message(response_format=Zone)
    assert parsed.parsed == Zone(zone="UTC")

    public.bus.upstream = answering("It is noon.")
    for sent_back in ([called, NOON, parsed], [called.model_dump(), NOON, parsed.model_dump()]):
        await create(client, messages=[*HELLO, *sent_back, *HELLO], tools=[STRICT_CLOCK])
        begins = command_of(public).begins
        _, asked, answered, said = begins.messages
        assert [call.arguments for call in asked.tool_calls] == [{"zone": "UTC"}]
        assert (answered.content, said.content) == ("noon", '{"zone": "UTC"}')


async def test_an_image_in_a_message_is_refused_in_words(client: AsyncOpenAI) -> None:
    for said in (HELLO, []):
        messages = [{"role": "user", "content": [TEXT, picture("ftp://example.com/cat.png")]}, *said]
        body = await refused(client, messages=messages)
        assert body["param"] == "messages.0.content.1.image_url.url"
        assert "use a public http(s) URL" in body["message"]


async def test_messages_may_name_who_says_them(public: Gateway, client: AsyncOpenAI) -> None:
    messages = [
        {"role": "system", "name": "rules", "content": "Be kind."},
        {"role": "user", "name": "Ada", "content": "Hello!"},
        {"role": "assistant", "name": "desk", "content": "Yes?", "reasoning_content": None},
        {"role": "user", "name": "Ada", "content": [{**TEXT, "annotations": None}]},
    ]
    await create(client, messages=messages)
    assert command_of(public).content[0].model_dump() == TEXT  # type: ignore[union-attr]


RULES = {"role": "system", "content": "Solve tasks using your tools."}
TASK = {"role": "user", "name": "user", "content": "What time is it?"}
CRITIC = {"role": "user", "name": "critic", "content": "Say it in UTC."}
WRITER = {"role": "assistant", "content": "It is noon."}
LOOKED = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "function": {"arguments": '{"zone":"UTC"}', "name": "clock"}, "type": "function"}],
    "content": "Let me look.",
}
NO_RESULT = {"content": "", "role": "tool", "tool_call_id": "c1"}
SELECTOR = {"role": "system", "content": "Read the conversation. Then select the next role from ['writer', 'critic']."}


@pytest.mark.parametrize(
    ("messages", "before", "question", "after"),
    [
        ([RULES, TASK], [], "What time is it?", []),
        ([RULES, TASK, LOOKED, NO_RESULT], [], "What time is it?", ["Let me look.", ""]),
        ([RULES, TASK, WRITER, CRITIC], ["What time is it?", "It is noon."], "Say it in UTC.", []),
        ([RULES, TASK, CRITIC], ["What time is it?"], "Say it in UTC.", []),
        ([RULES, TASK, WRITER, WRITER], [], "What time is it?", ["It is noon.", "It is noon."]),
        ([WRITER, TASK], ["It is noon."], "What time is it?", []),
        ([SELECTOR], [], SELECTOR["content"], []),
    ],
    ids=["task", "tool", "two agents", "first answer of the second", "one agent twice", "ledger", "selector"],
)
async def test_messages_of_autogens_client_are_taken(
    public: Gateway, client: AsyncOpenAI, messages: Any, before: list[str], question: str, after: list[str]
) -> None:
    """As ``autogen-ext`` 0.7.5 sends them for agents with tools and for teams of them."""
    await create(client, messages=messages)
    command = command_of(public)
    assert [message.content for message in command.begins.messages] == before
    assert command.content == question
    assert [message.content for message in command.request.client_calls.answered] == after
    instructions = None if command.request.options is None else command.request.options.instructions
    assert instructions == (RULES["content"] if RULES in messages else None)


async def test_the_detail_that_clients_add_by_themselves_is_left_out(public: Gateway, client: AsyncOpenAI) -> None:
    looked_at = {"role": "user", "content": [TEXT, picture("https://example.org/a.png", detail="auto")]}
    await create(client, messages=[looked_at])
    assert command_of(public).content[1].model_dump() == picture("https://example.org/a.png")  # type: ignore[union-attr]


async def test_as_many_functions_are_taken_as_openai_takes(public: Gateway, client: AsyncOpenAI) -> None:
    await create(client, tools=[named(f"clock{number}") for number in range(128)])
    options = command_of(public).request.options
    assert len(options.client_tools or ()) == 128


async def test_output_of_a_schema_is_json(public: Gateway, client: AsyncOpenAI) -> None:
    public.bus.upstream = answering('```json\n{"fare": 3}\n```', response={"output": {"fare": 3}})
    schema = {"type": "object", "properties": {"fare": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "fare", "schema": schema, "strict": True}}
    assert (await create(client, response_format=wanted)).choices[0].message.content == '{"fare":3}'
    options = command_of(public).request.options
    assert options.output_schema == schema
    await create(client, response_format={"type": "json_object"})
    options = command_of(public).request.options
    assert options.output_schema == {"type": "object"}
    await create(client, response_format={"type": "text"})
    assert command_of(public).request.options.output_schema is None  # type: ignore[union-attr]


async def test_every_field_is_honoured_or_refused_by_name(public: Gateway, client: AsyncOpenAI) -> None:
    cases: list[Any] = [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"seed": 1}, "seed"),
        ({"frequency_penalty": 1}, "frequency_penalty"),
        ({"reasoning_effort": "low"}, "reasoning_effort"),
        ({"store": True}, "store"),
        ({"functions": [{"name": "clock"}]}, "functions"),
        ({"extra_body": {"temprature": 1}}, "temprature"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 0}, "max_completion_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "Good day."}]}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        ({"messages": [{"role": "user", "content": "Hi", "mood": "good"}]}, "messages.0.mood"),
        (
            {"messages": [{"role": "user", "content": [{**TEXT, "cache_control": {}}]}]},
            "messages.0.content.0.cache_control",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages.0.content.0.image_url.url",
        ),
        (
            {"messages": [{"role": "user", "content": [picture("https://example.org/a.png", detail="fine")]}]},
            "messages.0.content.0.image_url.detail",
        ),
        ({"tools": [named(f"clock{number}") for number in range(129)]}, "tools"),
        ({"messages": [{"role": "king", "content": "Hi"}]}, "messages.0"),
        ({"messages": [*HELLO, {"role": "tool", "content": "x", "tool_call_id": "c"}]}, "messages.1.tool_call_id"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools.0.type"),
        ({"tools": [CLOCK, CLOCK]}, "tools.1.name"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 5}}}}, None),
    ]
    for fields, param in cases:
        body = await refused(client, **fields)
        assert param is None or str(body["param"]).startswith(param), body
        assert public.bus.sent == []


async def test_a_call_without_its_result_is_refused(client: AsyncOpenAI) -> None:
    function = {"name": "clock", "arguments": "{}"}
    asked = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    body = await refused(client, messages=[*HELLO, asked, *HELLO])
    assert body["param"] == "messages.1.tool_calls"
    broken = {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {**function, "arguments": "{"}}],
    }
    body = await refused(client, messages=[*HELLO, broken, {"role": "tool", "content": "", "tool_call_id": "c1"}])
    assert body["param"] == "messages.1.tool_calls.0.function.arguments"


async def test_refusals_of_the_runtime_name_the_callers_fields(public: Gateway, client: AsyncOpenAI) -> None:
    details = [{"loc": ["options", "tool_choice"], "type": "option_not_supported", "message": "no tools"}]
    info = ErrorInfo.model_validate({"type": "validation_error", "message": "no tools", "details": details})
    public.bus.upstream = lambda _: [rejected(ErrorKind.VALIDATION, "x").model_copy(update={"error": info})]
    assert (await refused(client, tool_choice="required"))["param"] == "tool_choice"


async def test_errors_are_the_clients_own(public: Gateway, client: AsyncOpenAI) -> None:
    for kind, error in (
        (ErrorKind.RATE_LIMIT, openai.RateLimitError),
        (ErrorKind.UNAVAILABLE, openai.InternalServerError),
        (ErrorKind.MODEL, openai.InternalServerError),
    ):
        refusal = rejected(kind, "not now")
        public.bus.upstream = lambda _, refusal=refusal: [refusal]  # type: ignore[misc]
        with pytest.raises(error):
            await create(client)
    with pytest.raises(openai.AuthenticationError):
        await create(client.with_options(api_key="aes_" + "x" * 43))
    with pytest.raises(openai.APIStatusError) as large:
        await create(client, messages=[{"role": "user", "content": "x" * 1_100_000}])
    assert large.value.status_code == 413


async def test_an_approval_is_a_conflict_that_is_not_repeated(public: Gateway, client: AsyncOpenAI) -> None:
    public.bus.upstream = lambda sent: [started(sent), required(sent)]
    with pytest.raises(openai.ConflictError) as problem:
        await create(client.with_options(max_retries=2))
    [sent] = public.bus.sent
    assert problem.value.code == "requires_action"
    assert sent.command_id in problem.value.message
    with pytest.raises(openai.APIError) as broken:
        await read(await create(client, stream=True))
    assert broken.value.code == "requires_action"


async def read(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]


def text_of(chunks: Iterable[Any]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


async def test_a_stream_is_the_text_as_it_comes(public: Gateway, client: AsyncOpenAI) -> None:
    public.bus.upstream = lambda sent: [
        started(sent),
        delta(sent, "Good ", 0),
        delta(sent, "day.", 5),
        completed(sent, "Good day."),
    ]
    chunks = await read(await create(client, stream=True, stream_options={"include_usage": True}))
    assert command_of(public).request.stream
    assert {chunk.id for chunk in chunks} == {f"chatcmpl_{public.bus.sent[-1].command_id}"}
    assert [choice.delta.content for chunk in chunks for choice in chunk.choices] == ["", "Good ", "day.", None]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None, None, None, "stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 10
    without = await read(await create(client, stream=True))
    assert (text_of(without), without[-1].choices[0].finish_reason) == ("Good day.", "stop")


async def test_a_stream_has_calls_of_the_clients_tools(public: Gateway, client: AsyncOpenAI) -> None:
    call = {"id": "c1", "name": "clock", "arguments": {}, "status": "requested"}
    public.bus.upstream = answering("Wait.", finish_reason="tool_calls", response={"tool_calls": [call]})
    async with client.chat.completions.stream(
        model="support",
        messages=HELLO,  # type: ignore[arg-type]
        tools=[CLOCK],  # type: ignore[list-item]
    ) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.choices[0].message.content == "Wait."
    assert [each.function.name for each in final.choices[0].message.tool_calls or ()] == ["clock"]


async def test_a_turn_that_was_taken_over_goes_on_where_its_text_was(public: Gateway, client: AsyncOpenAI) -> None:
    public.bus.upstream = lambda sent: [
        started(sent),
        delta(sent, "Good ", 0),
        TurnRestarted(**ids(sent), attempt=2, resumed_from_step=0),
        delta(sent, "Go", 0, attempt=2),
        delta(sent, "od day.", 2, attempt=2),
        completed(sent, "Good day."),
    ]
    assert text_of(await read(await create(client, stream=True))) == "Good day."


async def test_a_turn_that_begins_with_another_text_ends_the_stream(public: Gateway, client: AsyncOpenAI) -> None:
    public.bus.upstream = lambda sent: [
        started(sent),
        delta(sent, "Good ", 0),
        TurnRestarted(**ids(sent), attempt=2, resumed_from_step=0),
        delta(sent, "Hello.", 0, attempt=2),
        completed(sent, "Hello."),
    ]
    with pytest.raises(openai.APIError, match="restarted after a crash"):
        await read(await create(client, stream=True))


async def _read(answer: Any) -> None:
    if isinstance(answer, openai.AsyncStream):
        async for _ in answer:
            pass


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_that_is_too_long_is_refused(public: Gateway, client: AsyncOpenAI, stream: bool) -> None:
    detail = ErrorDetail(loc=["messages"], type="context_length_exceeded", message="too long")
    info = ErrorInfo(type=ErrorKind.VALIDATION, message="too long", details=[detail])
    public.bus.upstream = lambda sent: [started(sent), TurnFailed(**ids(sent), error=info)]
    with pytest.raises(openai.APIError) as problem:
        await _read(await create(client, stream=stream))
    assert command_of(public).request.whole_history is True
    assert (problem.value.code, problem.value.param) == ("context_length_exceeded", "messages")


@pytest.mark.parametrize(
    ("path", "asked"), [("/chat/completions", {"messages": HELLO}), ("/responses", {"input": "Hi"})]
)
@pytest.mark.parametrize("kind", [ErrorKind.MODEL, ErrorKind.RATE_LIMIT, ErrorKind.TIMEOUT, None])
async def test_a_turn_that_fails_or_is_cancelled_names_itself_and_is_not_run_again(
    public: Gateway, client: AsyncOpenAI, path: str, asked: dict[str, Any], kind: ErrorKind | None
) -> None:
    def ended(sent: Sent) -> Event:
        if kind is None:
            return cancelled(sent)
        return TurnFailed(**ids(sent), error=ErrorInfo(type=kind, message="The provider refused the call."))

    public.bus.upstream = lambda sent: [started(sent), ended(sent)]
    retrying = client.with_options(max_retries=2)
    with pytest.raises(openai.APIStatusError, match=r"The provider refused the call|was cancelled") as problem:
        await retrying.post(path, body={"model": "support", **asked}, cast_to=object)
    headers, [sent] = problem.value.response.headers, public.bus.sent
    assert headers.get_list("x-should-retry") == ["false"]
    assert {"session_id": headers["x-session-id"], "turn_id": headers["x-turn-id"]} == ids(sent)


async def test_a_turn_that_was_refused_may_be_sent_again(public: Gateway, client: AsyncOpenAI) -> None:
    public.bus.upstream = lambda _: [rejected(ErrorKind.RATE_LIMIT, "Not now.")]
    with pytest.raises(openai.RateLimitError) as problem:
        await create(client)
    assert {"x-should-retry", "x-turn-id"}.isdisjoint(problem.value.response.headers)


async def test_a_stream_that_fails_ends_with_the_error(public: Gateway, client: AsyncOpenAI) -> None:
    info = ErrorInfo(type=ErrorKind.MODEL, message="the provider is away")
    public.bus.upstream = lambda sent: [started(sent), delta(sent, "Go", 0), TurnFailed(**ids(sent), error=info)]
    with pytest.raises(openai.APIError, match="the provider is away"):
        await read(await create(client, stream=True))
    public.bus.upstream = lambda _: [rejected(ErrorKind.RATE_LIMIT, "not now")]
    with pytest.raises(openai.RateLimitError):
        await create(client, stream=True)
