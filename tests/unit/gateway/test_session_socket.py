"""The WebSocket of a session: credentials, messages of both sides, and its ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import orjson
import pytest

from libs.contracts.errors import ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event, public_name
from libs.contracts.resources.actions import ResolveAction
from libs.contracts.resources.sessions import SessionDeleted
from libs.contracts.resources.turns import CancelTurn, CancelTurnAccepted, ExecuteTurn, TurnOptions
from services.gateway.entrypoints.rest import session_socket
from tests.support.gateway import Gateway, Sent, rejected
from tests.support.public_agents import SHOP, connect
from tests.support.timeline import told
from tests.support.turn_events import completed, delta, started
from tests.support.waiting import elapse, until
from tests.unit.gateway.test_actions import accepted_answer
from tests.unit.gateway.test_execute import PATH, SESSION

pytestmark = pytest.mark.virtual_time
URL = f"/api/v1/ws/sessions/{SESSION}/"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_socket, "_SUBSCRIBE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def there_is_the_session(public: Gateway) -> None:
    public.upstreams.answers["GET", "runtime", f"/internal/sessions/{SESSION}"] = (200, {"session_id": SESSION})


class Socket:
    """A client's side of a WebSocket."""

    def __init__(self, public: Gateway, path: str = URL, query: str = "", protocols: str = "", **headers: str) -> None:
        self.accepted: dict[str, Any] | None = None
        self.code: int | None = None
        self.messages: list[dict[str, Any]] = []
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "websocket.connect"})
        scope = {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
            "subprotocols": [each.strip() for each in protocols.split(",")] if protocols else [],
        }
        self.task = asyncio.create_task(public.api.application(scope, self._incoming.get, self._take))

    async def _take(self, message: Any) -> None:
        match message["type"]:
            case "websocket.accept":
                self.accepted = message
            case "websocket.send":
                self.messages.append(orjson.loads(message["text"]))
            case "websocket.close":
                self.code = message["code"]
                self._incoming.put_nowait({"type": "websocket.disconnect", "code": self.code})

    def send(self, **message: Any) -> None:
        self._incoming.put_nowait({"type": "websocket.receive", "text": orjson.dumps(message).decode()})

    def send_raw(self, **frame: Any) -> None:
        self._incoming.put_nowait({"type": "websocket.receive", **frame})

    @property
    def names(self) -> list[str]:
        return [message["type"] for message in self.messages]

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = next(message for message in self.messages if message["type"] == "error")
        return found

    async def until(self, check: Callable[["Socket"], bool]) -> None:
        await until(lambda: check(self))

    async def ended(self) -> int | None:
        await until(self.task.done, "the connection has ended")
        await self.task
        return self.code


@asynccontextmanager
async def opened(public: Gateway, **how: str) -> AsyncIterator[Socket]:
    how = {"x_api_key": public.client.headers["x-api-key"], **how}
    socket = Socket(public, **how)
    try:
        await socket.until(lambda it: it.accepted is not None or it.task.done())
        await elapse(0.02)
        yield socket
    finally:
        socket.task.cancel()
        await asyncio.gather(socket.task, return_exceptions=True)


def happen(public: Gateway, sent: Sent, event: Event) -> None:
    """An event is published; the log and the readers of texts get it as well."""
    public.bus.publish(sent, event)
    if "output_text" in event.TYPE:
        follows = len(public.bus.recorded[sent.command_id])
        envelope = public.bus.recorded[sent.command_id][-1].envelope
        public.api.feeds.pass_text(
            type(envelope)(**{**{name: getattr(envelope, name) for name in envelope.__slots__}, "type": event.TYPE,
                              "sequence": follows}),
            event.encode(),
        )  # fmt: skip
        return
    recorded = public.bus.recorded[sent.command_id][-1]
    stored = public.timeline.add(
        id=recorded.envelope.id,
        type=public_name(recorded.envelope.type),
        source="/aes/runtime",
        subject=sent.command_id,
        sequence=recorded.envelope.sequence,
        session_id=SESSION,
        turn_id=sent.command_id,
        owner_id=sent.identity.user_id,
        data=recorded.payload,
    )
    public.api.feeds.wake(told("company-1", stored.id))


async def executed(public: Gateway, socket: Socket, **message: Any) -> Sent:
    before = len(public.bus.sent)
    socket.send(type="execute", content="Hi", **message)
    return await public.until_sent(before + 1)


async def test_a_turn_is_executed_and_shown(public: Gateway) -> None:
    async with opened(public) as socket:
        sent = await executed(public, socket, ref="mine")
        assert isinstance(sent.command, ExecuteTurn)
        assert (sent.command.session_id, sent.command.content, sent.command.request.stream) == (SESSION, "Hi", True)
        happen(public, sent, started(sent))
        happen(public, sent, delta(sent, "Hel"))
        happen(public, sent, delta(sent, "lo.", 3))
        happen(public, sent, completed(sent))
        await socket.until(lambda it: "turn.completed" in it.names)
        assert socket.names == [
            "turn.started", "turn.output_text.delta", "turn.output_text.delta", "turn.output_text.done",
            "turn.completed",
        ]  # fmt: skip
        assert {message["ref"] for message in socket.messages} == {"mine"}
        assert socket.messages[-1]["data"] == orjson.loads(completed(sent).encode())
        assert len({message["id"] for message in socket.messages}) == 5
        assert public.bus.watched == [], "its worker sends the text anyway"


async def test_turns_of_others_are_shown_with_their_texts(public: Gateway) -> None:
    async with opened(public) as first, opened(public) as second:
        asked = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}))
        sent = await public.until_sent()
        happen(public, sent, started(sent))
        await first.until(lambda it: it.names == ["turn.started"])
        assert sent.command_id in public.bus.watched
        happen(public, sent, delta(sent, "Hello."))
        happen(public, sent, completed(sent))
        for socket in (first, second):
            await socket.until(lambda it: "turn.completed" in it.names)
            assert all("ref" not in message for message in socket.messages)
        assert first.messages == second.messages
        await asked


async def test_a_refused_turn_is_an_error_with_its_ref(public: Gateway) -> None:
    public.bus.upstream = lambda _: [rejected(ErrorKind.RATE_LIMIT, "too many turns wait")]
    async with opened(public) as socket:
        socket.send(type="execute", content="Hi", ref="a")
        await socket.until(lambda it: it.names == ["error"])
        assert (socket.error["ref"], socket.error["error"]["type"]) == ("a", "rate_limit_error")
        public.bus.upstream = lambda _: [rejected(ErrorKind.BUDGET, "the budget is used up")]
        socket.send(type="execute", content="Hi", ref="b")
        await socket.until(lambda it: len(it.messages) == 2)
        assert (socket.messages[1]["ref"], socket.messages[1]["error"]["type"]) == ("b", "budget_exceeded")
        public.bus.down = True
        socket.send(type="execute", content="Hi", ref="c")
        await socket.until(lambda it: len(it.messages) == 3)
        assert (socket.messages[2]["ref"], socket.messages[2]["error"]["type"]) == ("c", "service_unavailable")
        assert socket.code is None


async def test_turns_begin_in_the_order_of_their_messages(public: Gateway) -> None:
    async with opened(public) as socket:
        for number in range(8):
            socket.send(type="execute", content=f"{number}", idempotency_key=f"key-{number}")
        await public.until_sent(8)
        assert [sent.command.content for sent in public.bus.sent] == [f"{number}" for number in range(8)]  # type: ignore[attr-defined]


async def test_a_key_that_was_used_over_rest_finds_the_same_turn(public: Gateway) -> None:
    public.bus.upstream = lambda sent: [started(sent), completed(sent)]
    await public.client.post(PATH, json={"content": "Hi"}, headers={"Idempotency-Key": "once"})
    async with opened(public) as socket:
        socket.send(type="execute", content="Hi", idempotency_key="once", ref="again")
        await socket.until(lambda it: it.names == ["turn.completed"])
        assert socket.messages[0]["ref"] == "again"
        assert len(public.bus.sent) == 1
        socket.send(type="execute", content="other", idempotency_key="once", ref="other")
        await socket.until(lambda it: "error" in it.names)
        assert (socket.error["ref"], socket.error["error"]["type"]) == ("other", "validation_error")


async def test_an_action_is_resolved(public: Gateway) -> None:
    async with opened(public) as socket:
        turn_id, action_id = new_id(), new_id()
        public.bus.upstream = lambda _: [accepted_answer(turn_id)]
        socket.send(type="resolve", turn_id=turn_id, action_id=action_id, output={"seat": "12A"})
        sent = await public.until_sent()
        where = {"session_id": SESSION, "turn_id": turn_id, "action_id": action_id}
        assert sent.command == ResolveAction(**where, output={"seat": "12A"})
        public.bus.upstream = lambda _: [rejected(ErrorKind.CONFLICT, "the action has expired")]
        socket.send(type="resolve", turn_id=turn_id, action_id=action_id, decision="deny", reason="no", ref="x")
        await socket.until(lambda it: it.names == ["error"])
        assert (socket.error["ref"], socket.error["error"]["type"]) == ("x", "conflict_error")
        assert public.bus.sent[-1].command == ResolveAction(**where, decision="deny", reason="no")


async def test_an_approval_takes_its_own_scope(public: Gateway) -> None:
    secret, _ = public.keys.issue(scopes=frozenset({"events:read", "runtime:execute"}))
    async with opened(public, x_api_key=secret) as socket:
        socket.send(type="resolve", turn_id=new_id(), action_id=new_id(), decision="approve")
        await socket.until(lambda it: it.names == ["error"])
        assert socket.error["error"]["type"] == "permission_error"
        assert public.bus.sent == []


async def test_a_turn_is_cancelled(public: Gateway) -> None:
    async with opened(public) as socket:
        turn_id = new_id()
        accepted = CancelTurnAccepted(session_id=SESSION, turn_id=turn_id)
        public.bus.upstream = lambda _: [accepted]
        socket.send(type="cancel", turn_id=turn_id)
        sent = await public.until_sent()
        assert sent.command == CancelTurn(session_id=SESSION, turn_id=turn_id)
        public.bus.upstream = lambda _: [rejected(ErrorKind.NOT_FOUND, "no such turn")]
        socket.send(type="cancel", turn_id=turn_id, ref="x")
        await socket.until(lambda it: it.names == ["error"])
        assert (socket.error["ref"], socket.error["error"]["type"]) == ("x", "not_found_error")


async def test_a_bad_message_is_an_error_and_no_end(public: Gateway) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"text": "{"}, "invalid_request_error"),
        ({"bytes": b"{}"}, "invalid_request_error"),
        ({"text": "[]"}, "validation_error"),
        ({"text": "{}"}, "validation_error"),
        ({"text": '{"type": "nothing"}'}, "validation_error"),
        ({"text": '{"type": ["execute"]}'}, "validation_error"),
        ({"text": '{"type": "execute"}'}, "validation_error"),
        ({"text": '{"type": "execute", "content": ""}'}, "validation_error"),
        ({"text": '{"type": "execute", "content": "x", "contents": 1}'}, "validation_error"),
        ({"text": '{"type": "execute", "content": "x", "idempotency_key": ""}'}, "invalid_request_error"),
        ({"text": '{"type": "execute", "content": "\\u0000"}'}, "validation_error"),
        ({"text": '{"type": "ping", "ref": 1}'}, "validation_error"),
        ({"text": '{"type": "subscribe", "after": "x"}'}, "validation_error"),
        ({"text": '{"type": "cancel", "turn_id": "x"}'}, "not_found_error"),
        ({"text": f'{{"type": "resolve", "turn_id": "{SESSION}", "action_id": "a", "decision": "approve"}}'},
         "not_found_error"),
        ({"text": f'{{"type": "resolve", "turn_id": "{SESSION}", "action_id": "{SESSION}"}}'}, "validation_error"),
    ]  # fmt: skip
    async with opened(public) as socket:
        for frame, kind in cases:
            socket.messages.clear()
            socket.send_raw(**frame)
            socket.send(type="ping", ref="still there")
            await socket.until(lambda it: "pong" in it.names)
            assert socket.names == ["error", "pong"], frame
            assert socket.error["error"]["type"] == kind
            assert {"message", "correlation_id"} <= set(socket.error["error"])
    assert public.bus.sent == []


async def test_subscribe_replays_what_came_after_a_message(public: Gateway) -> None:
    async with opened(public) as socket:
        sent = await executed(public, socket)
        happen(public, sent, started(sent))
        happen(public, sent, delta(sent, "Hel"))
        await socket.until(lambda it: len(it.messages) == 2)
        seen = socket.messages
    happen(public, sent, delta(sent, "lo"))
    happen(public, sent, completed(sent))
    async with opened(public) as later:
        later.send(type="subscribe", after=seen[-1]["id"])
        await later.until(lambda it: "turn.completed" in it.names)
        text = "".join(
            message["data"]["text"] for message in [*seen, *later.messages] if message["type"].endswith(".delta")
        )
        assert text == "Hello."
        assert "turn.started" not in later.names
    async with opened(public) as last:
        last.send(type="subscribe", after=later.messages[-1]["id"])
        last.send(type="ping")
        await last.until(lambda it: it.names == ["pong"])


async def test_subscribe_alone_shows_a_running_turn_from_its_start(
    public: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_socket, "_SUBSCRIBE_SECONDS", 5.0)
    asked = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}))
    old = await public.until_sent()
    happen(public, old, started(old))
    happen(public, old, completed(old))
    await asked
    async with opened(public) as idle:
        idle.send(type="subscribe")
        idle.send(type="ping")
        await idle.until(lambda it: it.names == ["pong"])
    asked = asyncio.create_task(public.client.post(PATH, json={"content": "Hi"}))
    sent = await public.until_sent(2)
    happen(public, sent, started(sent))
    async with opened(public) as socket:
        socket.send(type="subscribe")
        await socket.until(lambda it: it.names == ["turn.started"])
        assert socket.messages[0]["data"]["turn_id"] == sent.command_id
        # Its worker sends the text from its beginning, once it is watched.
        assert public.bus.watched[-1] == sent.command_id
        happen(public, sent, delta(sent, "Hello."))
        await socket.until(lambda it: "turn.output_text.delta" in it.names)
        happen(public, sent, completed(sent))
        await socket.until(lambda it: "turn.completed" in it.names)
    await asked


async def test_texts_that_are_lost_are_asked_for(public: Gateway) -> None:
    async with opened(public) as socket:
        sent = await executed(public, socket)
        happen(public, sent, started(sent))
        happen(public, sent, delta(sent, "lo.", 3))
        await until(lambda: public.bus.watched)
        happen(public, sent, delta(sent, "Hello."))
        await socket.until(lambda it: "turn.output_text.delta" in it.names)
        assert socket.messages[-1]["data"]["text"] == "Hello."


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"x_api_key": "x"}, 4401),
        ({"x_api_key": ""}, 4401),
        ({"x_api_key": "", "authorization": "Bearer x"}, 4401),
        ({"x_api_key": "", "protocols": "aes.v1, aes.token.x"}, 4401),
        ({"x_api_key": "", "query": "agent_key=unknown", "origin": SHOP}, 4401),
        ({"path": f"/api/v1/ws/sessions/{new_id()}/"}, 4404),
        ({"path": "/api/v1/ws/sessions/x/"}, 4404),
        ({"query": "session_id=x"}, 1008),
    ],
)
async def test_refusals_close_an_accepted_connection(public: Gateway, how: dict[str, str], code: int) -> None:
    async with opened(public, **how) as socket:
        assert await socket.ended() == code
        assert socket.accepted is not None
        assert socket.messages == []


async def test_scopes_are_needed(public: Gateway) -> None:
    secret, _ = public.keys.issue(scopes=frozenset({"sessions:read", "runtime:execute"}))
    async with opened(public, x_api_key=secret) as socket:
        assert await socket.ended() == 4403
    secret, _ = public.keys.issue(scopes=frozenset({"events:read"}))
    async with opened(public, x_api_key=secret) as socket:
        socket.send(type="execute", content="Hi")
        socket.send(type="cancel", turn_id=new_id())
        await socket.until(lambda it: it.names == ["error", "error"])
        assert {message["error"]["type"] for message in socket.messages} == {"permission_error"}
    assert public.bus.sent == []


async def test_a_rate_limit_counts_connections_and_messages(public: Gateway) -> None:
    secret, _ = public.keys.issue(rate_limit=3)
    async with opened(public, x_api_key=secret) as socket:
        for _ in range(3):
            socket.send(type="execute", content="Hi")
        await socket.until(lambda it: "error" in it.names)
        assert (socket.error["error"]["type"], socket.error["error"]["retry_after"]) == ("rate_limit_error", 20)
        assert len(public.bus.sent) == 2
        async with opened(public, x_api_key=secret) as refused:
            assert await refused.ended() == 4429


async def test_a_message_takes_the_options_of_one_turn_except_from_visitors(public: Gateway) -> None:
    async with opened(public) as socket:
        sent = await executed(public, socket, options={"temperature": 0})
        assert isinstance(sent.command, ExecuteTurn)
        assert sent.command.request.options == TurnOptions(temperature=0)
    query = f"connection_key={(await connect(public)).key}"
    async with opened(public, x_api_key="", query=query, origin=SHOP) as socket:
        socket.send(type="execute", content="Hi", options={"temperature": 0}, ref="r")
        await socket.until(lambda it: "error" in it.names)
        assert socket.messages[-1]["error"]["type"] == "permission_error"
    assert len(public.bus.sent) == 1


async def test_a_public_key_with_its_origin_is_enough(public: Gateway) -> None:
    connection = await connect(public)
    query = f"connection_key={connection.key}"
    async with opened(public, x_api_key="", query=query, origin=SHOP) as socket:
        socket.send(type="ping")
        await socket.until(lambda it: it.names == ["pong"])
        assert public.upstreams.asked_as[-1].user_id == connection.id
        socket.send(type="execute", content="Hi", idempotency_key="short")
        await socket.until(lambda it: "error" in it.names)
        sent = await executed(public, socket)
        assert sent.identity.user_id == connection.id
    async with opened(public, x_api_key="", query=query, origin="https://elsewhere.example") as refused:
        assert await refused.ended() == 4403
    async with opened(public, x_api_key="", query=query) as refused:
        assert await refused.ended() == 4401


async def test_an_expired_key_closes_its_sockets(public: Gateway) -> None:
    secret, _ = public.keys.issue(expires_at=public.clock.now() + timedelta(seconds=60))
    async with opened(public, x_api_key=secret) as socket:
        await elapse(61)
        assert await socket.ended() == 4401


async def test_a_session_that_is_deleted_ends_its_sockets(public: Gateway) -> None:
    async with opened(public) as socket:
        event = public.timeline.add(
            type="session.deleted",
            session_id=SESSION,
            subject=SESSION,
            data=SessionDeleted(session_id=SESSION).encode(),
        )
        public.api.feeds.wake(told("company-1", event.id))
        assert await socket.ended() == 4404
        assert socket.names == ["session.deleted"]


async def test_a_client_that_leaves_leaves_nothing_behind(public: Gateway) -> None:
    async with opened(public) as socket:
        sent = await executed(public, socket)
        socket.send_raw(type="websocket.disconnect", code=1001)
        assert await socket.ended() is None
    assert public.bus.waiters == {}
    reads = public.timeline.reads
    happen(public, sent, started(sent))
    await elapse(60)
    assert public.timeline.reads == reads
