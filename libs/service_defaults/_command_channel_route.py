"""The answering side of command channels: a WebSocket over which a process takes commands and tells of their events."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import structlog
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from libs.contracts.envelope import Envelope
from libs.contracts.errors import AuthenticationFailed
from libs.eventing import CommandRouter, IdentitySigner, KeyQueues, Outbox, Received, Record, is_terminal
from libs.service_defaults.internal_routes import BEARER, COMMANDS_PATH, decode_event, encode_event

CHANNEL_PATH: Final = f"{COMMANDS_PATH}/channel"
TAKEN: Final = "taken"
RETURNED: Final = "returned"
LEAVING: Final = "leaving"
PING: Final = "ping"
PONG: Final = "pong"
_MOST_IN_WORK: Final = 1000
_MOST_HEARD: Final = 10_000
_NOT_UNDERSTOOD: Final = 1003
_log = structlog.get_logger("service.channel")


def command_channel_route(
    commands: CommandRouter, outbox: Outbox, signer: IdentitySigner, takes: Callable[[], bool]
) -> APIRouter:
    """Carries out the service's commands when they are handed over instead of being sent on the bus.

    Binary messages are commands on the way here and events on the way back. Text on the way back tells of a command
    that it was ``taken`` without an event for it, or ``returned`` for the bus, and that this process is ``leaving``
    and takes no more. Each command carries its caller's signature, and takes effect once, by whatever ways it comes.

    ``takes``: whether this process carries out commands now.
    """
    router = APIRouter(include_in_schema=False)

    @router.websocket(CHANNEL_PATH)
    async def channel(websocket: WebSocket) -> None:
        if not (takes() and _is_ours(websocket, signer)):
            # Before it is accepted: the answer is 403.
            await websocket.close()
            return
        await websocket.accept()
        await _Channel(websocket, commands, outbox, takes).serve()

    return router


def _is_ours(websocket: WebSocket, signer: IdentitySigner) -> bool:
    try:
        signer.verify_call(websocket.headers.get("Authorization", "").removeprefix(BEARER))
    except AuthenticationFailed:
        return False
    return True


class _Channel:
    """One connection. Commands of a subject are carried out one after the other."""

    def __init__(
        self, websocket: WebSocket, commands: CommandRouter, outbox: Outbox, takes: Callable[[], bool]
    ) -> None:
        self._websocket = websocket
        self._commands = commands
        self._outbox = outbox
        self._takes = takes
        self._in_work: KeyQueues[str, Received] = KeyQueues(self._carry_out, name="channel.command")
        # Whether an event was told, by the command.
        self._heard: OrderedDict[str, bool] = OrderedDict()
        self._unsent: list[bytes | str] = []
        self._woken = asyncio.Event()

    async def serve(self) -> None:
        """Returns when the connection has ended; what was taken is carried out all the same."""
        sending = asyncio.create_task(self._send(), name="channel.send")
        try:
            while (message := await self._websocket.receive())["type"] == "websocket.receive":
                if message.get("text") == PING:
                    self._say(PONG)
                else:
                    self._take(message.get("bytes") or b"")
        except ValueError as problem:
            _log.warning("channel.not_understood", problem=str(problem))
            await self._websocket.close(_NOT_UNDERSTOOD)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            for command_id in list(self._heard):
                self._stop_listening(command_id)

    def _take(self, body: bytes) -> None:
        command = decode_event(body)
        envelope = command.envelope
        if not self._takes():
            self._say(LEAVING)
        elif self._commands.topic_of(envelope.type) is not None and len(self._in_work.keys) < _MOST_IN_WORK:
            self._listen(envelope.id)
            self._in_work.put(envelope.subject, command)
            return
        self._say(RETURNED, envelope.id)

    async def _carry_out(self, command: Received) -> None:
        envelope = command.envelope
        topic = self._commands.topic_of(envelope.type)
        assert topic is not None, "it was taken because it has one"
        record = Record(topic, -1, -1, envelope.correlation_id, command.payload, envelope.headers())
        try:
            await self._commands.deliver(record)
        except Exception as problem:
            # The bus tries it again, or keeps it as a dead letter.
            _log.info("command.returned", command_id=envelope.id, problem=repr(problem))
            self._stop_listening(envelope.id)
            self._say(RETURNED, envelope.id)
        else:
            if self._heard.get(envelope.id) is False:
                self._say(TAKEN, envelope.id)

    def _listen(self, command_id: str) -> None:
        if command_id not in self._heard:
            self._outbox.listeners.add(command_id, self._tell)
        self._heard[command_id] = False
        if len(self._heard) > _MOST_HEARD:
            # The events of the oldest one come over the bus.
            self._stop_listening(next(iter(self._heard)))

    def _stop_listening(self, command_id: str) -> None:
        self._outbox.listeners.remove(command_id, self._tell)
        self._heard.pop(command_id, None)

    def _tell(self, envelope: Envelope, payload: bytes) -> None:
        command_id = envelope.causation_id or ""
        self._put(encode_event(envelope, payload))
        if is_terminal(envelope.type):
            self._stop_listening(command_id)
        else:
            self._heard[command_id] = True

    def _say(self, word: str, command_id: str = "") -> None:
        self._put(f"{word} {command_id}".rstrip())

    def _put(self, message: bytes | str) -> None:
        self._unsent.append(message)
        self._woken.set()

    async def _send(self) -> None:
        """Sends what has come up meanwhile in one message, until the connection ends."""
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                unsent, self._unsent = self._unsent, []
                if events := [message for message in unsent if isinstance(message, bytes)]:
                    await self._websocket.send_bytes(b"\n".join(events))
                for word in unsent:
                    if isinstance(word, str):
                        await self._websocket.send_text(word)
        except WebSocketDisconnect:
            return
