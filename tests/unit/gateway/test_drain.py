"""The end of requests under way when the service stops, by what has been sent of their answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from starlette.types import Message

from libs.contracts.identifiers import new_id
from libs.contracts.resources.turns import TurnStarted
from libs.service_defaults import UpstreamStream
from tests.support.gateway import Gateway, Sent
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time
SESSION = new_id()


class Call:
    """One request to the application itself: the messages of its answer, as the server sees them."""

    def __init__(self, public: Gateway, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        self.sent: list[Message] = []
        self._body: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        scope = {
            "type": "http",
            "method": method,
            "path": f"/api/v1{path}",
            "raw_path": f"/api/v1{path}".encode(),
            "query_string": b"",
            "headers": [
                (b"x-api-key", public.client.headers["x-api-key"].encode()),
                *((name.encode(), value.encode()) for name, value in headers.items()),
            ],
        }
        self.task = asyncio.create_task(public.api.application(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if not self._body:
            await asyncio.Event().wait()
        return self._body.pop()

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def content(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_whole(self) -> bool:
        """Whether the server was told that the answer ends here; otherwise it closes the connection."""
        return self.sent[-1]["type"] == "http.response.body" and not self.sent[-1].get("more_body")

    async def ended(self) -> None:
        await until(self.task.done, "the answer has ended")
        await self.task

    async def until_sent(self, count: int) -> None:
        await until(lambda: len(self.sent) >= count, f"{count} messages of the answer were sent")


def archive_that_never_ends(public: Gateway) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"PK\x03\x04"
        await asyncio.Event().wait()

    @asynccontextmanager
    async def exchange(*_: Any, **__: Any) -> AsyncIterator[UpstreamStream]:
        yield UpstreamStream(200, {"Content-Type": "application/zip"}, pieces())

    public.upstreams.exchange = exchange  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("path", [f"/sessions/{SESSION}/artifacts/download-all/", f"/files/{new_id()}/download/"])
async def test_a_download_under_way_is_broken_off_and_nothing_is_added_to_it(public: Gateway, path: str) -> None:
    archive_that_never_ends(public)
    call = Call(public, "GET", path)
    await call.until_sent(2)
    await public.api.in_flight.drain(0)
    await call.ended()
    assert (call.status, call.content, call.is_whole) == (200, b"PK\x03\x04", False)


async def test_an_event_stream_under_way_ends_with_an_event(public: Gateway) -> None:
    call = Call(
        public,
        "POST",
        f"/runtime/{SESSION}/execute/",
        b'{"content": "Hi"}',
        **{"content-type": "application/json", "accept": "text/event-stream"},
    )
    public.bus.publish(sent := await public.until_sent(), started(sent))
    await call.until_sent(2)
    await public.api.in_flight.drain(0)
    await call.ended()
    last = call.content.decode().strip().split("\n\n")[-1]
    assert last.startswith("event: error\ndata: ")
    error = orjson.loads(last.partition("data: ")[2])["error"]
    assert (error["type"], call.is_whole) == ("service_unavailable", True)
    assert public.bus.waiters == {}


def started(sent: Sent) -> TurnStarted:
    return TurnStarted(session_id=SESSION, turn_id=sent.command_id, attempt=1, user_message_id="m1")


async def test_a_request_without_an_answer_yet_is_told_to_come_again(public: Gateway) -> None:
    call = Call(
        public, "POST", f"/runtime/{SESSION}/execute/", b'{"content": "Hi"}', **{"content-type": "application/json"}
    )
    await public.until_sent()
    await public.api.in_flight.drain(0)
    await call.ended()
    assert (call.status, call.is_whole) == (503, True)
    assert (b"retry-after", b"2") in call.sent[0]["headers"]
    assert orjson.loads(call.content)["error"]["type"] == "service_unavailable"


async def test_requests_that_end_in_time_are_left_alone(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [started(sent)]
    call = Call(
        public,
        "POST",
        f"/runtime/{SESSION}/execute/",
        b'{"content": "Hi"}',
        **{"content-type": "application/json", "prefer": "wait=1"},
    )
    await public.until_sent()
    await public.api.in_flight.drain(30)
    assert (call.status, call.is_whole, call.task.done()) == (202, True, True)


async def test_a_download_whose_upstream_fails_is_broken_off(public: Gateway) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"PK\x03\x04"
        raise ZeroDivisionError

    @asynccontextmanager
    async def exchange(*_: Any, **__: Any) -> AsyncIterator[UpstreamStream]:
        yield UpstreamStream(200, {"Content-Type": "application/zip"}, pieces())

    public.upstreams.exchange = exchange  # type: ignore[method-assign, assignment]
    call = Call(public, "GET", f"/sessions/{SESSION}/artifacts/download-all/")
    await call.ended()
    assert (call.status, call.content, call.is_whole) == (200, b"PK\x03\x04", False)
