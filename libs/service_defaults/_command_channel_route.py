"""The answering side of command channels: a WebSocket over which a process takes commands and tells of their events."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from libs.contracts.envelope import Envelope
from libs.contracts.errors import AuthenticationFailed
from libs.eventing import CommandRouter, IdentitySigner, KeyQueues, Outbox, Received, is_terminal
from libs.service_defaults.internal_routes import BEARER, COMMANDS_PATH, decode_event, encode_event

CHANNEL_PATH: Final = f"{COMMANDS_PATH}/channel"
TAKEN: Final = "taken"
RETURNED: Final = "returned"
LEAVING: Final = "leaving"
PING: Final = "ping"
PONG: Final = "pong"
_MOST_IN_WORK: Final = 1000
_MOST_HEARD: Final = 10_000
# Of a caller that reads nothing; all of it comes over the bus, too.
_MOST_UNSENT_BYTES: Final = 16 * 1024 * 1024
_STOP_SECONDS: Final = 3.0
_NOT_UNDERSTOOD: Final = 1003
_TRY_LATER: Final = 1013
_log = structlog.get_logger("service.channel")


class CommandChannelRoute:
    """Carries out the service's commands when they are handed over instead of being sent on the bus.

    Binary messages are commands on the way here and events on the way back. Text on the way back tells of a command
    that it was ``taken`` without an event for it, or ``returned`` for the bus, and that this process is ``leaving``
    and takes no more. Each command carries its caller's signature, and takes effect once, by whatever ways it comes.

    ``takes``: whether this process carries out commands now.
    """

    def __init__(
        self, commands: CommandRouter, outbox: Outbox, signer: IdentitySigner, takes: Callable[[], bool]
    ) -> None:
        self._commands = commands
        self._outbox = outbox
        self._signer = signer
        self._takes = takes
        self._channels: set[_Channel] = set()
        self.router = APIRouter(include_in_schema=False)
        self.router.add_api_websocket_route(CHANNEL_PATH, self._serve)

    async def _serve(self, websocket: WebSocket) -> None:
        if not (self._takes() and self._is_ours(websocket)):
            # Before it is accepted: the answer is 403.
            await websocket.close()
            return
        await websocket.accept()
        channel = _Channel(websocket, self._commands, self._outbox, self._takes)
        self._channels.add(channel)
        try:
            await channel.serve()
            # A process that leaves waits for these commands, too, though nobody listens to them any more.
            await channel.finish()
        finally:
            self._channels.discard(channel)

    def _is_ours(self, websocket: WebSocket) -> bool:
        """Whether a service asks for itself: a channel tells of commands of all companies."""
        try:
            identity = self._signer.verify_call(websocket.headers.get("Authorization", "").removeprefix(BEARER))
        except AuthenticationFailed:
            return False
        return identity.company_id == ""

    async def leave(self) -> None:
        """Returns what has not begun, and waits up to 3 s for what has; events go on to be told."""
        if in_work := [task for channel in self._channels for task in channel.leave()]:
            await asyncio.wait(in_work, timeout=_STOP_SECONDS)


class _Channel:
    """One connection. Commands of a subject are carried out one after the other."""

    def __init__(
        self, websocket: WebSocket, commands: CommandRouter, outbox: Outbox, takes: Callable[[], bool]
    ) -> None:
        self._websocket = websocket
        self._commands = commands
        self._outbox = outbox
        self._takes = takes
        self._in_work: KeyQueues[str, Received] = KeyQueues(self._handle, name="channel.command")
        # Whether an event was told, by the command.
        self._heard: OrderedDict[str, bool] = OrderedDict()
        self._unsent: list[bytes | str] = []
        self._unsent_bytes = 0
        self._woken = asyncio.Event()
        self._reading: asyncio.Task[int | None] | None = None
        self._has_ended = False

    async def serve(self) -> None:
        """Returns when the connection has ended; what was taken is carried out all the same."""
        reading = self._reading = asyncio.create_task(self._receive(), name="channel.receive")
        sending = asyncio.create_task(self._send(), name="channel.send")
        try:
            await asyncio.wait((reading, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._has_ended = True
            for command_id in list(self._heard):
                self._stop_listening(command_id)
            self._unsent.clear()
            for task in (reading, sending):
                task.cancel()
            ends = await asyncio.gather(reading, sending, return_exceptions=True)
        for problem in ends:
            if isinstance(problem, Exception) and not isinstance(problem, WebSocketDisconnect):
                _log.error("channel.failed", exc_info=problem)
        if (code := ends[0]) is not None:
            # Its caller leaves everything to the bus, and opens another one. The connection may be gone meanwhile.
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._websocket.close(code if isinstance(code, int) else _TRY_LATER)

    async def finish(self) -> None:
        """Waits until what was taken is carried out."""
        while tasks := [self._in_work.task(key) for key in self._in_work.keys]:
            await asyncio.wait(tasks)

    def leave(self) -> list["asyncio.Task[None]"]:
        """Returns what has not begun, as long as somebody hears of it; the tasks of what is left."""
        self._say(LEAVING)
        keys = list(self._in_work.keys)
        if not self._has_ended:
            for key in keys:
                self._return_waiting(key)
        return [self._in_work.task(key) for key in keys]

    async def _receive(self) -> int | None:
        """Takes commands until the connection ends; the code to end it with when what came is not understood."""
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            if message.get("text") == PING:
                self._say(PONG)
                continue
            try:
                command = decode_event(message.get("bytes") or b"")
            except (ValueError, AttributeError) as problem:
                _log.warning("channel.not_understood", problem=repr(problem))
                return _NOT_UNDERSTOOD
            self._take(command)
        return None

    def _take(self, command: Received) -> None:
        envelope = command.envelope
        if not self._takes():
            self._say(LEAVING)
        elif self._commands.handles(envelope.type) and len(self._in_work) < _MOST_IN_WORK:
            self._listen(envelope.id)
            self._in_work.put(envelope.subject, command)
            return
        self._say(RETURNED, envelope.id)

    async def _handle(self, command: Received) -> None:
        envelope = command.envelope
        try:
            await self._commands.dispatch(envelope, command.payload)
        except Exception as problem:
            # The bus tries it again, or keeps it as a dead letter. Later ones of its subject go there behind it.
            _log.info("command.returned", command_id=envelope.id, problem=repr(problem))
            self._return(envelope.id)
            self._return_waiting(envelope.subject)
        else:
            if self._heard.get(envelope.id) is False:
                self._say(TAKEN, envelope.id)

    def _return_waiting(self, subject: str) -> None:
        for command in self._in_work.drop_waiting(subject):
            self._return(command.envelope.id)

    def _return(self, command_id: str) -> None:
        self._stop_listening(command_id)
        self._say(RETURNED, command_id)

    def _listen(self, command_id: str) -> None:
        if command_id not in self._heard:
            self._outbox.listeners.add(command_id, self._send_event)
        self._heard[command_id] = False
        self._heard.move_to_end(command_id)
        if len(self._heard) > _MOST_HEARD:
            # Turns that wait, or that another process runs, end elsewhere; the events of the oldest come over the bus.
            self._stop_listening(next(iter(self._heard)))

    def _stop_listening(self, command_id: str) -> None:
        self._outbox.listeners.remove(command_id, self._send_event)
        self._heard.pop(command_id, None)

    def _send_event(self, envelope: Envelope, payload: bytes) -> None:
        command_id = envelope.causation_id or ""
        self._put(encode_event(envelope, payload))
        if is_terminal(envelope.type):
            self._stop_listening(command_id)
        elif command_id in self._heard:
            self._heard[command_id] = True

    def _say(self, word: str, command_id: str = "") -> None:
        self._put(f"{word} {command_id}".rstrip())

    def _put(self, message: bytes | str) -> None:
        if self._has_ended:
            return
        self._unsent.append(message)
        self._unsent_bytes += len(message)
        self._woken.set()
        if self._unsent_bytes > _MOST_UNSENT_BYTES and self._reading is not None:
            self._reading.cancel()

    async def _send(self) -> None:
        """Sends what has come up meanwhile in one message, until the connection ends."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
            if events := [message for message in unsent if isinstance(message, bytes)]:
                await self._websocket.send_bytes(b"\n".join(events))
            for word in unsent:
                if isinstance(word, str):
                    await self._websocket.send_text(word)
