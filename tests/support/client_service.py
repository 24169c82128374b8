"""A service for tests of the Python client: scripted answers, one after the other, and broken connections."""

import asyncio
import inspect
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import orjson
from aes_client import AsyncClient, Client, RetryPolicy

AT_ONCE = RetryPolicy(first=0.0)
"""As patient as the usual policy, without its pauses."""


class Events(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body of server-sent events; an exception among them breaks the connection there."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def event(event_id: str, name: str, **data: Any) -> bytes:
    return f"id: {event_id}\nevent: {name}\ndata: ".encode() + orjson.dumps(data) + b"\n\n"


def events(*pieces: bytes | Exception, location: str = "") -> httpx.Response:
    headers = {"content-type": "text/event-stream", **({"location": location} if location else {})}
    return httpx.Response(200, headers=headers, stream=Events(*pieces))


def error(status: int, kind: str, *, retry_after: int | None = None, **fields: Any) -> httpx.Response:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    body = {"error": {"type": kind, "message": f"a {kind}", **fields}}
    return httpx.Response(status, headers=headers, json=body)


Scripted = dict[str, Any] | list[Any] | httpx.Response | Exception | Callable[[httpx.Request], Any]


class FakeService:
    """``on`` scripts the answers to a call; the last one is given for ever. Calls without a script are 404s."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self._scripts: defaultdict[tuple[str, str], deque[Scripted]] = defaultdict(deque)
        self._lock = threading.Lock()

    def on(self, method: str, path: str, *answers: Scripted) -> None:
        self._scripts[method, path].extend(answers)

    def calls(self, method: str, path: str) -> list[httpx.Request]:
        return [each for each in self.requests if (each.method, _path(each)) == (method, path)]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.requests.append(request)
            script = self._scripts.get((request.method, _path(request)))
            if not script:
                return error(404, "not_found_error")
            answer = script.popleft() if len(script) > 1 else script[0]
        if callable(answer) and not isinstance(answer, httpx.Response):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return _copied(answer) if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)


def _copied(answer: httpx.Response) -> httpx.Response:
    """A response is good for one sending."""
    if isinstance(answer.stream, Events):
        return httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)
    return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def _path(request: httpx.Request) -> str:
    return request.url.raw_path.decode().partition("?")[0].removeprefix("/api/v1")


def blocking(service: FakeService) -> Client:
    http = httpx.Client(transport=httpx.MockTransport(service))
    return Client("http://service", "aes_key", retries=AT_ONCE, http=http)


def asynchronous(service: FakeService) -> AsyncClient:
    http = httpx.AsyncClient(transport=httpx.MockTransport(service))
    return AsyncClient("http://service", "aes_key", retries=AT_ONCE, http=http)


class Awaiting:
    """The asynchronous client, used like the blocking one: every awaitable is awaited, every series is a list's."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return _awaiting(getattr(self._target, name))


def _awaiting(found: Any) -> Any:
    if inspect.isawaitable(found):
        return _awaiting(asyncio.run(_finished(found)))
    if isinstance(found, AsyncIterator):
        return _taken(found)
    if callable(found):
        return lambda *arguments, **keywords: _awaiting(found(*arguments, **keywords))
    return Awaiting(found) if hasattr(found, "_runner") else found


def _taken(series: AsyncIterator[Any]) -> Iterator[Any]:
    """The items, as they come; closing it closes the series."""
    with asyncio.Runner() as runner:
        try:
            while True:
                yield _awaiting(runner.run(_finished(anext(series))))
        except StopAsyncIteration:
            return
        finally:
            runner.run(series.aclose())  # type: ignore[attr-defined]


async def _finished(work: Awaitable[Any]) -> Any:
    return await work
