"""``GET /events/`` as a stream: replay, following, and its ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import orjson
import pytest

from libs.eventing import request_reply
from services.gateway.domain.timeline import TimelineEvent
from services.gateway.use_cases.reading import feed_reader
from tests.support.gateway import Gateway, error_of
from tests.support.timeline import told
from tests.support.waiting import elapse, until

pytestmark = pytest.mark.virtual_time


class Stream:
    """An SSE answer while it is being sent."""

    def __init__(self, public: Gateway, query: str = "", **headers: str) -> None:
        self.status = 0
        self.text = b""
        self.pieces: list[bytes] = []
        self.gone = asyncio.Event()
        raw = {"x_api_key": public.client.headers["x-api-key"], "accept": "text/event-stream", **headers}
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/v1/events/",
            "raw_path": b"/api/v1/events/",
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in raw.items()],
        }
        self.task = asyncio.create_task(public.api.application(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.pieces.append(message.get("body", b""))
        self.text += self.pieces[-1]

    @property
    def blocks(self) -> list[dict[str, str]]:
        return [
            dict(line.split(": ", 1) for line in block.split("\n"))
            for block in self.text.decode().split("\n\n")
            if block and not block.startswith(":")
        ]

    @property
    def ids(self) -> list[int]:
        return [int(block["id"]) for block in self.blocks if "id" in block]

    async def ended(self) -> None:
        await until(self.task.done, "the stream has ended")
        await self.task

    async def until(self, check: Callable[["Stream"], object]) -> None:
        await until(lambda: check(self))


@asynccontextmanager
async def follow(public: Gateway, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    stream = Stream(public, query, **headers)
    try:
        yield stream
    finally:
        stream.task.cancel()
        await asyncio.gather(stream.task, return_exceptions=True)


def live(stream: Stream) -> bool:
    """Whether the stream has come to the present."""
    return b": keep-alive" in stream.text


def store(public: Gateway, **fields: Any) -> TimelineEvent:
    return public.timeline.add(**{"type": "turn.started", **fields})


def happen(public: Gateway, **fields: Any) -> TimelineEvent:
    """An event is stored, and the bus tells of it."""
    event = store(public, **fields)
    public.api.feeds.wake(told(event.company_id, event.id))
    return event


async def test_without_a_position_it_begins_with_now(public: Gateway) -> None:
    store(public)
    async with follow(public) as stream:
        await stream.until(live)
        assert (stream.status, stream.ids) == (200, [])
        event = happen(public, type="turn.completed", data=b'{"text": "a\\nb"}')
        await stream.until(lambda it: it.ids == [2])
        (block,) = stream.blocks
        assert (block["event"], orjson.loads(block["data"])) == ("turn.completed", orjson.loads(event.to_json()))


@pytest.mark.parametrize(
    ("query", "header", "expected"),
    [("after=0", {}, [1, 2, 3]), ("after=2", {}, [3]), ("", {"last_event_id": "1"}, [2, 3]),
     ("after=0", {"last_event_id": "2"}, [3]), ("after=0", {"last_event_id": ""}, [1, 2, 3])],
)  # fmt: skip
async def test_it_goes_on_where_the_reader_was(
    public: Gateway, query: str, header: dict[str, str], expected: list[int]
) -> None:
    for _ in range(3):
        store(public)
    async with follow(public, query, **header) as stream:
        await stream.until(live)
        assert stream.ids == expected
        happen(public)
        await stream.until(lambda it: it.ids == [*expected, 4])


async def test_a_last_event_id_that_is_none_is_refused(public: Gateway) -> None:
    for header in ["x", "-1", "1.0", "9223372036854775808", "1 ", "\u00b2"]:
        headers = {"accept": "text/event-stream", "last-event-id": header.encode()}
        refused = await public.client.get("/events/", headers=headers)  # type: ignore[arg-type]
        assert (refused.status_code, error_of(refused)["type"]) == (400, "invalid_request_error")


async def test_events_that_come_while_the_past_is_replayed_come_once(public: Gateway) -> None:
    for _ in range(450):
        store(public)
    page = public.timeline.page

    async def disturbed(*arguments: Any, **named: Any) -> Any:
        found = await page(*arguments, **named)
        if len(public.timeline.events["company-1"]) < 470:
            happen(public)
        await asyncio.sleep(0)
        return found

    public.timeline.page = disturbed  # type: ignore[method-assign]
    async with follow(public, "after=0") as first, follow(public, "after=449") as second:
        await first.until(lambda it: it.ids and it.ids[-1] == 470)
        await second.until(lambda it: it.ids and it.ids[-1] == 470)
        assert first.ids == list(range(1, 471))
        assert second.ids == list(range(450, 471))


async def test_each_reader_gets_what_it_asked_for_and_may_see(public: Gateway) -> None:
    secret, _ = public.keys.issue(scopes=frozenset({"events:read"}), user_id="user-2")
    async with (
        follow(public) as everything,
        follow(public, "type=turn.*") as turns,
        follow(public, "session_id=s1") as one,
        follow(public, "correlation_id=mine&type=agent.created") as labelled,
        follow(public, x_api_key=secret) as personal,
    ):
        streams = (everything, turns, one, labelled, personal)
        for stream in streams:
            await stream.until(live)
        happen(public, session_id="s1", owner_id="user-1")
        happen(public, session_id="s2", owner_id="user-2")
        happen(public, type="agent.created", correlation_id="mine")
        store(public, company_id="company-2")
        await everything.until(lambda it: it.ids == [1, 2, 3])
        await personal.until(lambda it: it.ids == [2, 3])
        assert [stream.ids for stream in (turns, one, labelled)] == [[1, 2], [1], [3]]


async def test_an_event_that_the_log_gets_later_than_the_bus_is_waited_for(public: Gateway) -> None:
    async with follow(public) as stream:
        await stream.until(live)
        public.api.feeds.wake(told("company-1", "to come"))
        await elapse(1)
        store(public, id="to come")
        await stream.until(lambda it: it.ids == [1])
        reads = public.timeline.reads
        await elapse(60)
        assert public.timeline.reads == reads, "nothing more to wait for"


async def test_events_that_the_bus_did_not_tell_of_come_with_the_next_look(public: Gateway) -> None:
    tending = asyncio.create_task(public.api.feeds.run())
    async with follow(public) as stream:
        await stream.until(live)
        store(public)
        await stream.until(lambda it: it.ids == [1])
    tending.cancel()


async def test_a_silent_stream_is_kept_alive(public: Gateway) -> None:
    tending = asyncio.create_task(public.api.feeds.run())
    async with follow(public) as stream:
        await stream.until(lambda it: it.text.count(b": keep-alive\nid: 0\n\n") >= 3)
    tending.cancel()


async def test_positions_of_a_stream_never_go_back(public: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async with follow(public, "type=turn.*") as stream:
        await stream.until(live)
        (feed,) = public.api.feeds._feeds.values()
        (reader,) = feed.readers()
        happen(public)
        await stream.until(lambda it: 1 in it.ids)
        monkeypatch.setattr(feed_reader, "KEEP_ALIVE_SECONDS", -1.0)
        reader.tick(asyncio.get_running_loop().time(), 0)
        await stream.until(lambda it: it.text.endswith(b"\n\n: keep-alive\nid: 1\n\n"))


def _as_is(event: TimelineEvent) -> bytes:
    return bytes(bytearray(event.data))


async def test_much_of_the_past_comes_in_pieces_and_is_not_kept(public: Gateway) -> None:
    data = orjson.dumps({"text": "x" * 100_000})
    stored = [store(public, data=data) for _ in range(7)]
    stored.append(store(public, data=orjson.dumps({"text": "x" * 500_000})))
    async with follow(public, "after=0") as stream:
        await stream.until(live)
        assert stream.ids == [event.position for event in stored]
        # Two events of 100 KB each, the odd one, the large one.
        assert [piece.count(b"event: ") for piece in stream.pieces if b"event: " in piece] == [2, 2, 2, 1, 1]
    assert all(event.rendered_as(_as_is) is not event.rendered_as(_as_is) for event in stored)


async def test_a_long_search_says_how_far_it_is(public: Gateway) -> None:
    public.timeline.looked_at = 5
    for _ in range(12):
        store(public)
    wanted = store(public, type="agent.created")
    async with follow(public, "after=0&type=agent.*") as stream:
        await stream.until(lambda it: it.ids == [wanted.position])
        assert stream.text.startswith(b": keep-alive\nid: 5\n\n: keep-alive\nid: 10\n\n")


async def test_a_reader_that_leaves_too_much_unread_is_ended(public: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reply, "MOST_UNREAD", 5)
    async with follow(public) as slow, follow(public, "type=agent.*") as other:
        await slow.until(live)
        await other.until(live)
        for _ in range(20):
            store(public)
        happen(public, type="agent.created")
        await slow.ended()
        assert slow.blocks[-1]["event"] == "error"
        assert "too slowly" in orjson.loads(slow.blocks[-1]["data"])["error"]["message"]
        await other.until(lambda it: it.ids == [21])


async def test_an_expired_key_ends_its_streams(public: Gateway) -> None:
    secret, _ = public.keys.issue(expires_at=public.clock.now() + timedelta(seconds=60))
    async with follow(public, x_api_key=secret) as stream:
        await stream.until(live)
        await elapse(59)
        assert not stream.task.done()
        await elapse(2)
        await stream.ended()
    assert orjson.loads(stream.blocks[-1]["data"])["error"]["type"] == "authentication_error"


async def test_a_database_that_hangs_silences_no_stream(public: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async with follow(public) as stream:
        await stream.until(live)
        looked = asyncio.Event()

        async def hang(_: object) -> dict[str, int]:
            looked.set()
            return await asyncio.Future()

        monkeypatch.setattr(public.timeline, "heads", hang)
        tending = asyncio.create_task(public.api.feeds.run())
        await looked.wait()
        await stream.until(lambda it: it.text.count(b": keep-alive") >= 3)
        assert not stream.task.done()
    tending.cancel()


async def test_a_replica_that_stops_ends_its_streams_and_begins_none(public: Gateway) -> None:
    async with follow(public) as stream:
        await stream.until(live)
        public.api.feeds.stop()
        await stream.ended()
        assert orjson.loads(stream.blocks[-1]["data"])["error"]["type"] == "service_unavailable"
    refused = await public.client.get("/events/", headers={"accept": "text/event-stream"})
    assert (refused.status_code, error_of(refused)["type"]) == (503, "service_unavailable")


async def test_a_reader_that_leaves_leaves_nothing_behind(public: Gateway) -> None:
    async with follow(public) as stream:
        await stream.until(live)
        stream.gone.set()
        await stream.ended()
    reads = public.timeline.reads
    happen(public)
    await elapse(60)
    assert public.timeline.reads == reads, "nobody reads on"
