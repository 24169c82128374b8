"""Serves ``WS /ws/sessions/{session_id}/``: streams a session's events, and accepts messages."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, Final

import orjson
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from libs.contracts.errors import (
    AuthenticationFailed,
    ErrorKind,
    NotFound,
    RateLimited,
    ServiceError,
)
from libs.contracts.identifiers import id_of, new_id
from libs.contracts.identity import Scope
from libs.contracts.messages import public_name
from libs.contracts.resources.turns import TurnRequest
from libs.service_defaults.errors import error_body
from libs.tracing import bind_correlation_id
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import Write
from services.gateway.domain.public_view import public_event
from services.gateway.domain.session_stream import SessionCursor, SessionMessage
from services.gateway.domain.timeline import Restarting
from services.gateway.domain.turn_ends import END_NAMES
from services.gateway.domain.turn_options import check_options
from services.gateway.entrypoints.door.application import Door
from services.gateway.entrypoints.door.callers import require_scopes
from services.gateway.entrypoints.door.errors import as_service_error, info_for
from services.gateway.entrypoints.door.metrics import OPEN_SOCKETS, REFUSALS
from services.gateway.entrypoints.door.queries import NoQuery, query_values
from services.gateway.entrypoints.door.routes import PREFIX
from services.gateway.entrypoints.door.writes import repeatable
from services.gateway.entrypoints.rest.client_messages import (
    Cancel,
    ClientMessage,
    Execute,
    Ping,
    Resolve,
    Subscribe,
    message_of,
    values_in,
)
from services.gateway.use_cases.turns import SubmittedTurn, scope_to_answer

_PROTOCOL: Final = "aes.v1"
_TOKEN: Final = "aes.token."  # noqa: S105 (what goes before one)
_CODES: Final = {
    ErrorKind.AUTHENTICATION: 4401,
    ErrorKind.PERMISSION: 4403,
    ErrorKind.NOT_FOUND: 4404,
    ErrorKind.RATE_LIMIT: 4429,
    ErrorKind.INVALID_REQUEST: 1008,
    ErrorKind.VALIDATION: 1008,
    ErrorKind.INTERNAL: 1011,
}
_TRY_AGAIN_LATER: Final = 1013
_RESTART: Final = 1012
_LONGEST_REASON: Final = 120
_MOST_AT_ONCE: Final = 32
_MOST_REFS: Final = 1000
# A client that resumes sends `subscribe` first. New messages are held back until then, but no longer than this.
_SUBSCRIBE_SECONDS: Final = 1.0


async def session_socket(websocket: WebSocket) -> None:
    """Serves a connection. Accepts a rejected connection before closing it, so that browsers see the close code."""
    bind_correlation_id(new_id())
    offered: list[str] = websocket.scope["subprotocols"]
    try:
        caller, head = await _admit(websocket, offered)
    except Exception as problem:
        await _accept(websocket, offered)
        await _close(websocket, as_service_error(problem))
        return
    await _accept(websocket, offered)
    socket = SessionSocket(websocket, caller, SessionCursor(head))
    await socket.serve()


async def _admit(websocket: WebSocket, offered: list[str]) -> tuple[Principal, int]:
    """Returns the authenticated caller, and the timeline's newest position."""
    door: Door = websocket.app.state.door
    token = next((each.removeprefix(_TOKEN) for each in offered if each.startswith(_TOKEN)), None)
    caller = await door.authentication.authenticate(websocket, takes_public_keys=True, token=token)
    require_scopes(caller, [Scope.EVENTS_READ])
    NoQuery.model_validate(query_values(websocket.scope["query_string"]))
    session_id = id_of(websocket.path_params["session_id"], "session")
    head = await door.reader.head(caller)
    await door.owners.get(caller, "runtime", f"/internal/sessions/{session_id}")
    return caller, head


async def _accept(websocket: WebSocket, offered: list[str]) -> None:
    await websocket.accept(subprotocol=_PROTOCOL if _PROTOCOL in offered else None)


async def _close(websocket: WebSocket, problem: ServiceError) -> None:
    REFUSALS.labels(problem.kind.value).inc()
    reason = info_for(websocket, problem).message.encode()[:_LONGEST_REASON].decode(errors="ignore")
    code = _RESTART if isinstance(problem, Restarting) else _CODES.get(problem.kind, _TRY_AGAIN_LATER)
    with suppress(WebSocketDisconnect, RuntimeError):
        # The connection may already be closed.
        await websocket.close(code, reason)


class SessionSocket:
    """A connection to a session."""

    def __init__(self, websocket: WebSocket, caller: Principal, at: SessionCursor) -> None:
        self._websocket = websocket
        self._caller = caller
        self._session_id: str = websocket.path_params["session_id"]
        self._door: Door = websocket.app.state.door
        self._at = at
        self._refs: OrderedDict[str, str | None] = OrderedDict()
        self._streaming: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serves the connection until either side closes it."""
        streams = self._door.streams
        try:
            streams.check(self._caller.identity.key_id)
            async with streams.hold_slot(self._caller), streams.opened(self._caller, OPEN_SOCKETS):
                await self._receive()
        except (AuthenticationFailed, RateLimited) as refused:
            await _close(self._websocket, refused)
        finally:
            await self._end()

    async def _end(self) -> None:
        tasks = [*self._work, *([self._streaming] if self._streaming is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self) -> None:
        message = None
        try:
            async with asyncio.timeout(_SUBSCRIBE_SECONDS):
                message = await self._websocket.receive()
        except TimeoutError:
            self._stream(running_turn=False)
        while True:
            if message is not None:
                if message["type"] == "websocket.disconnect":
                    return
                await self._take(message.get("text"))
                if self._streaming is None:
                    self._stream(running_turn=False)
            message = await self._websocket.receive()

    async def _take(self, text: str | None) -> None:
        ref: str | None = None
        try:
            values = values_in(text)
            ref = given if isinstance(given := values.get("ref"), str) else None
            await self._act(message_of(values), values)
        except WebSocketDisconnect:
            return
        except Exception as problem:
            await self._send_error(problem, ref)

    async def _act(self, message: ClientMessage, values: dict[str, Any]) -> None:
        match message:
            case Ping():
                await self._send({"type": "pong"}, message.ref)
            case Subscribe():
                if message.after is not None:
                    self._at = SessionCursor.parse(message.after)
                self._stream(running_turn=message.after is None)
            case Execute():
                await self._count(Scope.RUNTIME_EXECUTE)
                await self._execute(message, message.body(values))
            case Cancel():
                await self._count(Scope.RUNTIME_EXECUTE)
                turn_id = id_of(message.turn_id, "turn")
                self._run(self._door.turns.cancel(self._write(), self._session_id, turn_id), message.ref)
            case Resolve():
                await self._count(scope_to_answer(message))
                action = self._session_id, id_of(message.turn_id, "turn"), id_of(message.action_id, "action")
                self._run(self._door.turns.answer(self._write(), *action, message), message.ref)

    async def _count(self, scope: Scope) -> None:
        """Counts a message like a REST request.

        Raises ``PermissionDenied`` if the caller lacks the scope, and ``RateLimited`` above a limit.
        """
        require_scopes(self._caller, [scope])
        await self._door.authentication.count(self._caller)
        if len(self._work) >= _MOST_AT_ONCE:
            raise RateLimited(
                f"The connection already has {_MOST_AT_ONCE} messages in progress. Wait for one to finish.",
                retry_after=1,
            )

    async def _execute(self, message: Execute, values: dict[str, Any]) -> None:
        if message.options is not None:
            check_options(message.options, self._caller)
        path = f"{PREFIX}/runtime/{self._session_id}/execute/"
        key = message.idempotency_key
        write = Write(
            identity=self._caller.identity,
            correlation_id=message.correlation_id or new_id(),
            request=None if key is None else repeatable(self._caller, "POST", path, key, values),
        )
        async with AsyncExitStack() as stack:
            # Submits messages in order, so that their turns start in this order.
            asked = TurnRequest(stream=True, options=message.options)
            submitted = self._door.turns.submit(write, self._session_id, message.content, asked)
            turn = await stack.enter_async_context(submitted)
            self._remember(turn.command_id, message.ref)
            self._run(self._await_acceptance(stack.pop_all(), turn), message.ref)

    async def _await_acceptance(self, stack: AsyncExitStack, turn: SubmittedTurn) -> None:
        async with stack:
            end = await turn.replies.wait(0.0) if turn.replies.is_repeat else None
            if end is not None and public_name(end.envelope.type) in END_NAMES:
                # This is a retry, and the turn's events have already been sent.
                await self._show(SessionMessage(self._at, public_name(end.envelope.type), end.payload, turn.command_id))
            else:
                await turn.accepted()

    def _write(self) -> Write:
        return Write(identity=self._caller.identity, correlation_id=new_id())

    def _run(self, work: Coroutine[Any, Any, object], ref: str | None) -> None:
        """Processes a message in the background. Sends only errors, because the session's events show the result."""

        async def run() -> None:
            try:
                await work
            except WebSocketDisconnect:
                return
            except Exception as problem:
                await self._send_error(problem, ref)

        task = asyncio.create_task(run(), name="socket.work")
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _remember(self, turn_id: str, ref: str | None) -> None:
        self._refs[turn_id] = ref
        if len(self._refs) > _MOST_REFS:
            self._refs.popitem(last=False)

    def _stream(self, *, running_turn: bool) -> None:
        if self._streaming is not None:
            self._streaming.cancel()
        self._streaming = asyncio.create_task(self._send_events(running_turn), name="socket.events")

    async def _send_events(self, running_turn: bool) -> None:
        events = self._door.reader.session(
            self._caller, self._session_id, self._at, from_running_turn=running_turn, is_own=self._refs.__contains__
        )
        try:
            async with aclosing(events):
                async for message in events:
                    await self._show(message)
                    self._at = message.id
                    if message.type == "session.deleted":
                        await _close(self._websocket, NotFound("The session has ended."))
                        return
        except WebSocketDisconnect:
            return
        except Exception as problem:
            await _close(self._websocket, as_service_error(problem))

    async def _show(self, message: SessionMessage) -> None:
        is_public = self._caller.public is not None
        data = public_event(message.type, message.payload) if is_public else message.payload
        shown = {"type": message.type, "id": str(message.id), "data": orjson.Fragment(data)}
        await self._send(shown, self._refs.get(message.turn_id))

    async def _send_error(self, problem: Exception, ref: str | None) -> None:
        refused = as_service_error(problem)
        REFUSALS.labels(refused.kind.value).inc()
        error = orjson.loads(error_body(info_for(self._websocket, refused)))["error"]
        if refused.retry_after is not None:
            error["retry_after"] = refused.retry_after
        await self._send({"type": "error", "error": error}, ref)

    async def _send(self, message: dict[str, Any], ref: str | None) -> None:
        if self._websocket.application_state is not WebSocketState.CONNECTED:
            return
        await self._websocket.send_text(orjson.dumps(message if ref is None else {**message, "ref": ref}).decode())


route: Final = WebSocketRoute(f"{PREFIX}/ws/sessions/{{session_id}}/", session_socket)
