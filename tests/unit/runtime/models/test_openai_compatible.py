import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import structlog
from aiohttp import web
from structlog.testing import capture_logs

from libs.contracts.resources.turns import ModelSettings
from services.runtime.adapters.models.openai_compatible import OpenAICompatible
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
from services.runtime.domain.models import ModelFailed, ModelRequest, OnText
from tests.servers.model_stub import TEXT, ModelStub
from tests.support.agent_fakes import said
from tests.unit.runtime.models.conftest import SECRET

Lean = Callable[..., OpenAICompatible]
Serving = Callable[..., Awaitable[OpenAICompatible]]
TOOLS = (Calculator.definition,)
STREAMED = pytest.mark.parametrize("stream", [False, True])


def asking(model: str = "stub", question: str = "Hello?", **more: object) -> ModelRequest:
    return ModelRequest(f"openai:{model}", "Be kind.", (said(question),), **more)  # type: ignore[arg-type]


@pytest.fixture
async def serving(lean: Lean) -> AsyncIterator[Serving]:
    """Makes models whose server gives one answer to everything."""
    runners = []

    async def serve(body: bytes, status: int = 200, **headers: str) -> OpenAICompatible:
        async def handle(_request: web.BaseRequest) -> web.Response:
            return web.Response(body=body, status=status, headers={"Content-Type": "application/json", **headers})

        runners.append(runner := web.ServerRunner(web.Server(handle)))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return lean(base_url=f"http://127.0.0.1:{runner.addresses[0][1]}", largest_answer_bytes=10_000)

    yield serve
    for runner in runners:
        await runner.cleanup()


async def failure(model: OpenAICompatible, match: str = ".", on_text: OnText | None = None) -> ModelFailed:
    with pytest.raises(ModelFailed, match=match) as failed:
        await model.answer(asking(), on_text)
    return failed.value


def _drop(_piece: str) -> None:
    pass


async def test_a_whole_answer(stub: ModelStub, lean: Lean) -> None:
    answer = await lean().answer(asking(settings=ModelSettings(temperature=0.2, max_tokens=50)))

    assert (answer.text, answer.usage, answer.finish_reason) == (TEXT, Usage(42, 80, 0, 1), "stop")
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello?"}]
    assert stub.requests == [{"model": "stub", "messages": messages, "temperature": 0.2, "max_tokens": 50}]
    assert stub.headers[0]["Authorization"] == f"Bearer {SECRET}"


async def test_a_streamed_answer_comes_in_pieces(stub: ModelStub, lean: Lean) -> None:
    pieces: list[str] = []
    answer = await lean().answer(asking(), pieces.append)
    assert len(pieces) > 5
    assert "".join(pieces) == answer.text == TEXT
    assert answer.usage == Usage(42, 80, 0, 1)
    assert stub.requests[0]["stream_options"] == {"include_usage": True}


async def test_pieces_come_while_the_answer_is_made(lean: Lean) -> None:
    first = asyncio.Event()
    running = asyncio.create_task(lean().answer(asking("stub-slow-1000"), lambda _piece: first.set()))
    await first.wait()
    assert not running.done()
    assert (await running).text == TEXT


@STREAMED
async def test_a_missing_usage_is_tolerated(lean: Lean, stream: bool) -> None:
    answer = await lean().answer(asking("stub-nousage"), _drop if stream else None)
    assert (answer.text, answer.usage) == (TEXT, Usage(model_calls=1))


@STREAMED
async def test_tool_calls(lean: Lean, stream: bool) -> None:
    for model in ("stub-tool", "stub-fragments"):
        answer = await lean().answer(asking(model, tools=TOOLS), _drop if stream else None)
        assert answer.tool_calls == (ToolCall("call_0_0", "calculator", {"expression": "6*7"}),)
        assert answer.finish_reason == "tool_calls"
    answer = await lean().answer(asking("stub-tools-fragments", tools=TOOLS), _drop if stream else None)
    assert [call.arguments["expression"] for call in answer.tool_calls] == ["1+1", "2+2", "3+3"]


async def test_tool_results_and_images_are_sent(stub: ModelStub, lean: Lean) -> None:
    a, b = "https://example.com/a.png", "https://example.com/b.png"
    messages = (
        UserMessage((TextPart("What is this?"), ImagePart(a), ImagePart(b, "low"))),
        AssistantMessage("", (ToolCall("c1", "calculator", {"expression": "6*7"}),)),
        ToolMessage(ToolResult("c1", "calculator", "6*7 = 42")),
    )
    await lean().answer(ModelRequest("openai:stub", "", messages, tools=TOOLS))

    function = {"name": "calculator", "arguments": '{"expression":"6*7"}'}
    images = [{"url": a}, {"url": b, "detail": "low"}]
    content = [
        {"type": "text", "text": "What is this?"},
        *({"type": "image_url", "image_url": each} for each in images),
    ]
    assert stub.requests[0]["messages"] == [
        {"role": "user", "content": content},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "6*7 = 42"},
    ]
    assert stub.requests[0]["tools"][0]["function"]["parameters"] == Calculator.definition.parameters


@STREAMED
@pytest.mark.parametrize("model", ["stub-flaky-2", "stub-flaky-2-error-500"])
async def test_passing_failures_are_retried(
    stub: ModelStub, lean: Lean, waits: list[float], stream: bool, model: str
) -> None:
    pieces: list[str] = []
    answer = await lean().answer(asking(model), pieces.append if stream else None)
    assert answer.text == TEXT
    assert "".join(pieces) == (TEXT if stream else "")
    assert stub.calls[model] == 3
    assert waits == [0.5, 1.0]


async def test_retries_are_bounded_and_the_message_holds_no_secret(stub: ModelStub, lean: Lean) -> None:
    with pytest.raises(ModelFailed) as failure:
        await lean().answer(asking("stub-error-503"))
    assert stub.calls["stub-error-503"] == 4
    assert failure.value.status == 503
    assert failure.value.kind == "model_error"
    assert failure.value.message == "openai: status 503: the stub was told to fail, key ***"


async def test_a_stream_that_breaks_after_text_is_not_begun_again(stub: ModelStub, lean: Lean) -> None:
    pieces: list[str] = []
    with pytest.raises(ModelFailed):
        await lean().answer(asking("stub-break"), pieces.append)
    assert stub.calls["stub-break"] == 1
    assert 0 < len("".join(pieces)) < len(TEXT)


async def test_a_slow_answer_times_out_and_is_retried(lean: Lean, waits: list[float]) -> None:
    with pytest.raises(ModelFailed, match="the request timed out"):
        await lean(timeout=0.05).answer(asking("stub-slow-5000"))
    assert len(waits) == 3


async def test_an_answer_that_is_too_large_is_refused(stub: ModelStub, lean: Lean, serving: Serving) -> None:
    for on_text in (None, _drop):
        await failure(lean(largest_answer_bytes=100), "exceeds the maximum size", on_text)
    assert stub.calls["stub"] == 2
    bomb = gzip.compress(b'{"choices": [{"message": {"content": "' + b"x" * 100_000 + b'"}}]}')
    await failure(await serving(bomb, **{"Content-Encoding": "gzip"}), "exceeds the maximum size")


async def test_nobody_listening_is_a_model_error(lean: Lean, waits: list[float]) -> None:
    await failure(lean(base_url="http://127.0.0.1:9/v1"), "connection failed")
    assert len(waits) == 3


@STREAMED
@pytest.mark.parametrize(
    ("scheme", "answer", "library_says"),
    [
        ("http", b"", "Server disconnected"),
        ("https", b"not TLS\r\n", "WRONG_VERSION_NUMBER"),
        ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n", "Error("),
    ],
)
async def test_callers_learn_nothing_of_the_network(
    lean: Lean, scheme: str, answer: bytes, library_says: str, stream: bool
) -> None:
    """Operators find the address, the reason and the correlation id in one line."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        if answer:
            # Until the client has read it and hangs up.
            await reader.read()
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    structlog.contextvars.bind_contextvars(correlation_id="corr-1")
    with capture_logs([structlog.contextvars.merge_contextvars]) as logs:
        told = await failure(lean(base_url=f"{scheme}://{address}/v1"), ".", _drop if stream else None)
    server.close()
    assert told.message == "openai: the connection failed"
    assert {(line["event"], line["correlation_id"]) for line in logs} == {("model.connection_failed", "corr-1")}
    assert {line["address"] for line in logs} == {f"{scheme}://{address}/v1/chat/completions"}
    assert all(library_says in line["problem"] for line in logs)
    assert SECRET not in str(logs)


DEEP_ARGUMENTS = (
    b'{"choices": [{"message": {"tool_calls": [{"function": {"arguments": ' + b"[" * 500 + b"]" * 500 + b"}}]}}]}"
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "isn't JSON"),
        (b"[]", "isn't a JSON object"),
        (b'{"choices": []}', "doesn't contain any choices"),
        (b'{"choices": [{"message": null}]}', "doesn't contain a message"),
        (b'{"error": {"message": "model overloaded", "code": 503}}', "model overloaded"),
        (b'{"error": "bad"}', "bad"),
        (DEEP_ARGUMENTS, "nested too deeply"),
        (b'{"error": {"message": "odd", "code": "\xc2\xb2"}}', "odd"),
        (b'{"error": {"message": ' + b'[{"text": ' * 500 + b"0" + b"}]" * 500 + b"}}", "unspecified"),
    ],
)
async def test_unusable_answers_are_model_errors(serving: Serving, body: bytes, message: str) -> None:
    await failure(await serving(body), message)


async def test_a_stream_that_ends_without_an_answer_is_a_model_error(serving: Serving) -> None:
    model = await serving(b"data: {}\n\ndata: [DONE]\n\n", **{"Content-Type": "text/event-stream"})
    await failure(model, "doesn't contain any choices", _drop)


async def test_arguments_nested_too_deeply_fail_only_their_call(serving: Serving) -> None:
    arguments = '"{\\"expression\\": ' + "[" * 300 + "]" * 300 + '}"'
    call = '{"id": "c", "function": {"name": "calculator", "arguments": ' + arguments + "}}"
    model = await serving(('{"choices": [{"message": {"tool_calls": [' + call + "]}}]}").encode())
    error = "the arguments are nested more than 64 levels deep"
    calls = (await model.answer(asking(tools=TOOLS))).tool_calls
    assert calls == (ToolCall("c", "calculator", {}, validation_error=error),)


@pytest.mark.parametrize(
    ("status", "header", "waited", "told"),
    [
        (429, "3600", [], ("rate_limit_error", 3600)),
        (429, "1e999", [], ("rate_limit_error", 604_800)),
        (429, "25.5", [], ("rate_limit_error", 26)),
        (429, "7", [7.0, 7.0, 7.0], ("rate_limit_error", 7)),
        (429, None, [0.5, 1.0, 2.0], ("model_error", None)),
        (503, "3600", [], ("model_error", None)),
    ],
)
async def test_a_retry_after_is_honoured_within_the_bound_and_told_beyond_it(
    serving: Serving, waits: list[float], status: int, header: str | None, waited: list[float], told: tuple[str, int]
) -> None:
    failed = await failure(
        await serving(b"{}", status, **({} if header is None else {"Retry-After": header})), str(status)
    )
    assert (waits, (failed.info().type, failed.info().retry_after)) == (waited, told)


@pytest.mark.parametrize(
    ("body", "at_400", "at_200"),
    [
        (b'{"detail": "no such model"}', "status 400: no such model", "no such model"),
        (
            b'{"detail": [{"loc": ["x"], "msg": "too long", "type": "t"}, {"msg": "and odd"}]}',
            "status 400: too long; and odd",
            "too long; and odd",
        ),
        (b'{"message": "no such model"}', "status 400: no such model", "no such model"),
        (
            b'{"object": "error", "message": "no such model", "type": "NotFoundError", "code": 404}',
            "status 400: no such model",
            "status 404: no such model",
        ),
        (
            b'[{"error": {"code": 400, "message": "no such model", "status": "INVALID"}}]',
            "status 400: no such model",
            "status 400: no such model",
        ),
        (b'{"error": {"code": 1301, "message": "no such model"}}', "status 400: no such model", "no such model"),
        (b'{"error": {"error": {"message": "400 no such model"}}}', "400 no such model", "400 no such model"),
    ],
)
async def test_errors_are_told_in_whatever_shape_they_come(
    serving: Serving, waits: list[float], body: bytes, at_400: str, at_200: str
) -> None:
    """The message begins with the status, or with the code in a 200's error, unless the text contains it."""
    for status, text in ((400, at_400), (200, at_200)):
        event = body if status == 400 else b"data: " + body + b"\n\n"
        for sent, kind, on_text in ((body, "application/json", None), (event, "text/event-stream", _drop)):
            failed = await failure(await serving(sent, status, **{"Content-Type": kind}), ".", on_text)
            assert (failed.message, waits) == (f"openai: {text}", [])


async def test_a_plain_text_is_told_and_a_page_is_not(serving: Serving) -> None:
    for kind, text in (("text/plain", "status 400: Too long."), ("text/html", "the server returned status 400")):
        failed = await failure(await serving(b"Too long.", 400, **{"Content-Type": kind}))
        assert failed.message == f"openai: {text}"


async def test_redirects_are_not_followed(serving: Serving, stub: ModelStub) -> None:
    await failure(await serving(b"", 307, Location=f"{stub.base_url}/chat/completions"), "307")
    assert stub.requests == []


async def test_a_stream_answered_in_one_piece_is_taken(serving: Serving) -> None:
    model = await serving(b'{"choices": [{"message": {"content": [{"type": "text", "text": "Hi."}]}}]}')
    pieces: list[str] = []
    answer = await model.answer(asking(), pieces.append)
    assert (answer.text, pieces) == ("Hi.", ["Hi."])


async def test_half_pairs_in_streams_and_errors_are_replaced(serving: Serving) -> None:
    stream = rb"""data: {"choices": [{"delta": {"content": "\ud83d"}}]}

data: {"choices": [{"delta": {"content": "\ude00\ud83d"}, "finish_reason": "stop"}]}

data: [DONE]
"""
    model = await serving(stream, **{"Content-Type": "text/event-stream"})
    pieces: list[str] = []
    assert (await model.answer(asking(), pieces.append)).text == "".join(pieces) == "😀�"
    await failure(await serving(rb'{"error": {"message": "no \ud83d"}}', 400), "no �")


AS_PRICE = ModelSettings(
    output_schema={"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}
)


@pytest.mark.parametrize(
    ("when", "more", "native"),
    [
        ("always", {}, True),
        ("always", {"tools": TOOLS}, True),
        ("without_tools", {}, True),
        ("without_tools", {"tools": TOOLS}, False),
        ("without_tools", {"tools": TOOLS, "answer_in_text": True}, True),
        ("never", {}, False),
        ("always", {"settings": ModelSettings(output_schema={"type": "array"})}, False),
    ],
)
async def test_an_output_schema_is_sent_where_the_server_takes_it(
    stub: ModelStub, lean: Lean, when: str, more: dict[str, object], native: bool
) -> None:
    await lean(native_output=when).answer(asking(**{"settings": AS_PRICE, **more}))
    [body] = stub.requests
    assert ("response_format" in body) is native
    assert ("JSON Schema" in body["messages"][0]["content"]) is not native


@STREAMED
async def test_a_model_that_refuses_the_format_is_asked_in_words(stub: ModelStub, lean: Lean, stream: bool) -> None:
    pieces: list[str] = []
    request = asking("stub-noformat", settings=AS_PRICE)
    answer = await lean(native_output="always").answer(request, pieces.append if stream else None)
    assert answer.text == TEXT
    assert "".join(pieces) == (TEXT if stream else "")
    assert ["response_format" in body for body in stub.requests] == [True, False]
    with pytest.raises(ModelFailed):
        await lean(native_output="always").answer(asking("stub-error-400", settings=AS_PRICE))
    assert len(stub.requests) == 3
