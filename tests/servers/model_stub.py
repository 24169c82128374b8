"""A local OpenAI-compatible server that answers at once, for tests and benchmarks.

    python -m tests.servers.model_stub --port 0 --delay-ms 0

prints its base URL. The model's name says how it behaves, parts joined by dashes in any number after `stub`:
`slow-3000` (milliseconds), `tool` (first calls `calculator`, then answers), `tools` (three calls at once),
`client` (also, or only, calls `order_status`), `lookup` (calls `bench_lookup`, whose target is `GET /lookup` here),
`fragments` (the streamed call in small pieces), `loop` (asks for a tool for ever), `flaky-2` (fails twice, with
429 and `Retry-After: 0`, then answers), `error-500` (the status of failures; alone: always fails), `nousage`,
`break` (the stream breaks off), `echo` (answers with the last user message), `count` (with the number of messages),
`noformat` (refuses a `response_format`).
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import orjson
from aiohttp import web

from tests.support.waiting import pace

TEXT = "The stub answers with this fixed text, which is as long as a short reply of a model usually is. " * 4
EXPRESSION = "6*7"
_USAGE = {"prompt_tokens": 42, "completion_tokens": 80, "total_tokens": 122}
_PIECES = 20
_LOOKED_UP = b'{"order": 4711, "status": "shipped", "items": [{"name": "lamp", "count": 2}], "carrier": "ferry"}'
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Behaviour:
    delay: float = 0.0
    failures: int = 0
    status: int = 429
    flags: frozenset[str] = frozenset()


@lru_cache(maxsize=256)
def behaviour(model: str) -> Behaviour:
    words = model.split("-")[1:]
    values = {word: int(after) for word, after in pairwise(words) if after.isdigit()}
    always = -1 if "error" in values and "flaky" not in values else 0
    return Behaviour(
        delay=values.get("slow", 0) / 1000,
        failures=values.get("flaky", always),
        status=values.get("error", 429),
        flags=frozenset(word for word in words if not word.isdigit()),
    )


def _completion(message: dict[str, Any], reason: str, usage: bool) -> bytes:
    body: dict[str, Any] = {
        "id": "stub",
        "object": "chat.completion",
        "created": 0,
        "model": "stub",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
    }
    if usage:
        body["usage"] = _USAGE
    return orjson.dumps(body)


def _event(delta: dict[str, Any] | None, reason: str | None = None, usage: bool = False) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    body: dict[str, Any] = {"id": "stub", "object": "chat.completion.chunk", "created": 0, "choices": choices}
    if usage:
        body["usage"] = _USAGE
    return b"data: " + orjson.dumps(body) + b"\n\n"


def _ending(reason: str, usage: bool) -> bytes:
    return _event({}, reason) + (_event(None, usage=True) if usage else b"") + b"data: [DONE]\n\n"


@lru_cache(maxsize=64)
def _whole_text(text: str, usage: bool) -> bytes:
    return _completion({"content": text}, "stop", usage)


@lru_cache(maxsize=64)
def _text_events(text: str, usage: bool) -> tuple[bytes, ...]:
    size = max(1, -(-len(text) // _PIECES))
    pieces = [_event({"content": text[i : i + size]}) for i in range(0, len(text), size)]
    return (_event({"role": "assistant", "content": ""}) + pieces[0], *pieces[1:], _ending("stop", usage))


def _calls(flags: frozenset[str], turn: int) -> list[dict[str, Any]]:
    expressions = ["1+1", "2+2", "3+3"] if "tools" in flags else [EXPRESSION]
    calls: list[tuple[str, dict[str, Any]]] = [("calculator", {"expression": each}) for each in expressions]
    if "lookup" in flags:
        calls = [("bench_lookup", {"order": 4711})]
    if "client" in flags:
        calls = [*(calls if flags & {"tool", "tools"} else ()), ("order_status", {"order": 4711})]
    return [
        {
            "index": number,
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": orjson.dumps(arguments).decode(),
            },
        }
        for number, (name, arguments) in enumerate(calls)
    ]


@lru_cache(maxsize=64)
def _whole_calls(flags: frozenset[str], turn: int) -> bytes:
    return _completion({"content": None, "tool_calls": _calls(flags, turn)}, "tool_calls", "nousage" not in flags)


@lru_cache(maxsize=64)
def _call_events(flags: frozenset[str], turn: int) -> tuple[bytes, ...]:
    events = []
    for call in _calls(flags, turn):
        arguments = call["function"]["arguments"]
        if "fragments" not in flags:
            events.append(_event({"tool_calls": [call]}))
            continue
        function = {"name": call["function"]["name"], "arguments": ""}
        events.append(_event({"tool_calls": [{**call, "function": function}]}))
        for i in range(0, len(arguments), 4):
            fragment = {"index": call["index"], "function": {"arguments": arguments[i : i + 4]}}
            events.append(_event({"tool_calls": [fragment]}))
    return (*events, _ending("tool_calls", "nousage" not in flags))


@dataclass
class ModelStub:
    """`requests` keeps the bodies when `keep` is set; `calls` counts requests by model name."""

    delay: float = 0.0
    keep: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    base_url: str = ""
    _runner: web.ServerRunner | None = None

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> str:
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=1024)
        await site.start()
        bound = self._runner.addresses[0]
        self.base_url = f"http://{bound[0]}:{bound[1]}/v1"
        return self.base_url

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET" and request.path == "/lookup":
            return web.Response(body=_LOOKED_UP, headers=_JSON)
        if request.method != "POST" or not request.path.endswith("/chat/completions"):
            return web.Response(status=404)
        body = orjson.loads(await request.read())
        model = body["model"]
        how = behaviour(model)
        self.calls[model] += 1
        if self.keep:
            self.requests.append(body)
            self.headers.append(dict(request.headers))
        if how.failures and (how.failures < 0 or self.calls[model] % (how.failures + 1)):
            return self._failure(how.status)
        if "noformat" in how.flags and "response_format" in body:
            return self._failure(400, "response_format of type json_schema is not supported with this model")
        stream = body.get("stream", False)
        usage = "nousage" not in how.flags
        turn = self._tool_round(body, how.flags)
        delay = how.delay or self.delay
        if turn is not None:
            whole, events = _whole_calls(how.flags, turn), _call_events(how.flags, turn)
        else:
            text = self._text(body, how.flags)
            whole, events = _whole_text(text, usage), _text_events(text, usage)
        if stream:
            # Half of a call is nothing to a client.
            halfway = self._halfway(how.flags) if turn is None else None
            return await self._stream(request, events, delay, halfway, breaks="break" in how.flags)
        if delay:
            await pace(delay)
        return web.Response(body=whole, headers=_JSON)

    def _failure(
        self, status: int, message: str = "the stub was told to fail, key sk-stub-secret-1234"
    ) -> web.Response:
        body = {"error": {"message": message, "type": "stub"}}
        return web.Response(status=status, body=orjson.dumps(body), headers={**_JSON, "Retry-After": "0"})

    def _tool_round(self, body: dict[str, Any], flags: frozenset[str]) -> int | None:
        """The number of the tool call to answer with, None to answer in text."""
        if not flags & {"tool", "tools", "loop", "fragments", "client", "lookup"} or not body.get("tools"):
            return None
        results = 0
        for message in reversed(body["messages"]):
            if message["role"] == "user":
                break
            results += message["role"] == "tool"
        return results if not results or "loop" in flags else None

    def _text(self, body: dict[str, Any], flags: frozenset[str]) -> str:
        if "count" in flags:
            return f"{len(body['messages'])} messages"
        if "echo" not in flags:
            return TEXT
        content = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
        return "You said: " + (content if isinstance(content, str) else orjson.dumps(content).decode())

    def _halfway(self, flags: frozenset[str]) -> asyncio.Event | None:
        """The event on which a streamed text waits in its middle."""
        return None

    async def _stream(
        self,
        request: web.BaseRequest,
        events: tuple[bytes, ...],
        delay: float,
        halfway: asyncio.Event | None,
        *,
        breaks: bool,
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if breaks:
            await response.write(b"".join(events[: len(events) // 2]))
            request.transport.close()
            return response
        if not delay and halfway is None:
            await response.write(events[0])
            await response.write_eof(b"".join(events[1:]))
            return response
        for number, event in enumerate(events):
            if halfway is not None and number == len(events) // 2:
                await halfway.wait()
            await pace(delay / len(events))
            await response.write(event)
        await response.write_eof()
        return response


async def _serve(port: int, delay: float) -> None:
    stub = ModelStub(delay=delay)
    print(await stub.start(port), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A local OpenAI-compatible stub.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    arguments = parser.parse_args()
    try:
        import uvloop

        uvloop.run(_serve(arguments.port, arguments.delay_ms / 1000))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
