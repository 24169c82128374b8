"""Promises of HTTP that every server keeps: HEAD, weights of Accept, challenges, Retry-After, answers to bad ranges."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from fastapi import Request

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.identifiers import new_id
from libs.service_defaults import UpstreamStream
from libs.service_defaults.errors import error_response
from services.gateway.entrypoints.door.answers import wants_events
from services.gateway.entrypoints.door.callers import ANYBODY
from services.gateway.entrypoints.door.streams import EventStreams
from services.gateway.use_cases.stream_slots import StreamSlots
from tests.support.company_limits import NO_LIMITS, FakeSharedLimits, FakeSharedState
from tests.support.gateway import Gateway, error_of


class Upstream:
    """Answers every exchange with this status and these headers, and a body that never ends."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.closed = False
        self._status = status
        self._headers = headers

    @asynccontextmanager
    async def exchange(self, *_: Any, **__: Any) -> AsyncIterator[UpstreamStream]:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield b"x"

        yield UpstreamStream(self._status, self._headers, pieces())
        self.closed = True


async def test_what_can_be_read_answers_head(public: Gateway) -> None:
    for path in ["/me/", "/models/", "/asyncapi.json", "/docs/"]:
        public.upstreams.answers["GET", "runtime", "/internal/models"] = (200, {"models": []})
        read, asked = await public.client.get(path), await public.client.head(path)
        assert (read.status_code, asked.status_code) == (200, 200)
        assert asked.headers["content-length"] == read.headers["content-length"]
        assert asked.headers["content-type"] == read.headers["content-type"]


@pytest.mark.parametrize(("accepted", "encoding"), [("gzip, br", "gzip"), ("identity", None)])
async def test_a_large_answer_is_compressed_for_those_who_accept_it(
    public: Gateway, accepted: str, encoding: str | None
) -> None:
    models = {"models": [f"openai:model-{number}" for number in range(2_000)]}
    public.upstreams.answers["GET", "runtime", "/internal/models"] = (200, models)
    headers = {"accept-encoding": accepted}
    read, asked = [await public.client.request(method, "/models/", headers=headers) for method in ("GET", "HEAD")]
    assert read.json() == models
    assert read.headers.get("content-encoding") == encoding
    assert "accept-encoding" in read.headers["vary"].lower()
    assert (int(read.headers["content-length"]) < len(read.content) / 4) == (encoding is not None)
    assert asked.headers["content-length"] == read.headers["content-length"]
    small = await public.client.get("/me/", headers=headers)
    assert "content-encoding" not in small.headers


async def test_head_of_a_write_is_no_method(public: Gateway) -> None:
    assert (await public.client.head("/agent/validate/")).status_code == 405


async def test_head_of_a_download_ends_without_its_bytes(public: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream(200, {"Content-Length": "70000000", "ETag": '"e"'})
    monkeypatch.setattr(public.upstreams, "exchange", upstream.exchange)
    answer = await public.client.head(f"/files/{new_id()}/download/")
    assert (answer.status_code, answer.content) == (200, b"")
    assert (answer.headers["content-length"], answer.headers["etag"]) == ("70000000", '"e"')
    assert upstream.closed


async def test_head_of_an_event_stream_ends() -> None:
    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"event: x\n\n"

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    places = StreamSlots(FakeSharedLimits(FakeSharedState(lambda: 0.0)), NO_LIMITS)
    async with AsyncExitStack() as held:
        request = Request({"type": "http", "method": "HEAD", "state": {"held": held}})
        response = await EventStreams(lambda: datetime.now(UTC), places).respond(request, endless(), ANYBODY)
        await response(request.scope, None, send)  # type: ignore[arg-type]
    assert [message.get("body", b"") for message in sent] == [b"", b""]


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        (None, False),
        ("*/*", False),
        ("application/json", False),
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("application/json, text/event-stream", True),
        ("text/event-stream;q=0", False),
        ("text/event-stream; q=0.0, application/json", False),
        ("application/json;q=0.9, text/event-stream;q=0.5", False),
        ("application/json;q=0.1, text/event-stream;q=0.5", True),
        ("text/event-stream;q=nonsense", True),
        ("text/event-streams", False),
    ],
)
def test_weights_of_what_is_accepted_count(accept: str | None, streams: bool) -> None:
    assert wants_events(accept) is streams


async def test_a_refused_credential_is_told_how_to_authenticate(public: Gateway) -> None:
    answer = await public.client.get("/me/", headers={"x-api-key": "nobody's"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("ApiKey realm=")


@pytest.mark.parametrize("kind", [ErrorKind.TIMEOUT, ErrorKind.UNAVAILABLE, ErrorKind.RATE_LIMIT])
def test_errors_that_pass_say_when_to_come_back(kind: ErrorKind) -> None:
    assert int(error_response(ErrorInfo(type=kind, message="later")).headers["retry-after"]) > 0


async def test_a_message_of_white_space_is_refused(public: Gateway) -> None:
    for content in [" ", "\n\t", " \u2003", [{"type": "text", "text": " \n"}]]:
        answer = await public.client.post(f"/runtime/{new_id()}/execute/", json={"content": content})
        assert answer.status_code == 422
        assert {"loc": ["content"], "message": "must not be blank"}.items() <= (error_of(answer)["details"][0].items())
        assert public.bus.sent == []


async def test_a_finding_about_a_part_names_its_field(public: Gateway) -> None:
    cases: list[Any] = [
        ({"type": "text", "text": "Hi", "cache_control": {}}, "cache_control"),
        ({"type": "text", "text": 5}, "text"),
        ({"type": "text"}, "text"),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detial": "low"}}, "image_url.detial"),
        ({"type": "image_url", "image_url": {}}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}, "url": "x"}, "url"),
        ({"type": "file", "file": "x", "source": {"artifact_id": "a"}}, "file"),
        ({"type": "file", "file": "x"}, "source"),
    ]
    for block, place in cases:
        answer = await public.client.post(f"/runtime/{new_id()}/execute/", json={"content": [block]})
        assert answer.status_code == 422
        assert error_of(answer)["details"][0]["loc"] == ["content", 0, *place.split(".")]


async def test_a_range_beyond_the_end_is_an_error_like_others(public: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream(416, {"Content-Range": "bytes */5", "ETag": '"e"'})
    monkeypatch.setattr(public.upstreams, "exchange", upstream.exchange)
    answer: httpx.Response = await public.client.get(f"/files/{new_id()}/download/", headers={"Range": "bytes=9-"})
    assert (answer.status_code, error_of(answer)["type"]) == (416, "range_not_satisfiable")
    assert answer.headers["content-range"] == "bytes */5"
    assert upstream.closed
