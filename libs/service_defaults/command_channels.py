"""The calling side of command channels: WebSockets to the processes that carry out a service's commands."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit, urlunsplit
from zlib import crc32

import aiohttp
import structlog

from libs.eventing import HandedOver
from libs.eventing._request_reply import OnEvent
from libs.retry import RetryPolicy
from libs.service_defaults._command_channel_route import CHANNEL_PATH, LEAVING, PING, RETURNED, TAKEN
from libs.service_defaults.internal_routes import decode_events, encode_event

_log = structlog.get_logger("service.channel")
# A process takes messages of up to 512 KiB.
_LARGEST: Final = 256 * 1024
_SEND_SECONDS: Final = 1.0
_SILENCE_SECONDS: Final = 1.0
_CONNECT_SECONDS: Final = 3.0
_HEARTBEAT_SECONDS: Final = 15.0
_RESOLVE_SECONDS: Final = 10.0
_RECONNECT: Final = RetryPolicy(first=0.2, longest=5.0)


class ServiceCommandChannels:
    """Keeps a channel to each process of the given services (a ``CommandChannels``).

    ``addresses``: base URLs by service, separated by commas; a name may stand for the addresses of several processes.
    Commands of one subject go to one process for as long as that is there, which so has at hand what it knows of it.
    ``headers``: those of an internal call.
    """

    def __init__(self, addresses: Mapping[str, str], headers: Callable[[], dict[str, str]]) -> None:
        self.on_event: OnEvent = lambda _envelope, _payload: None
        self.on_returned: Callable[[HandedOver], None] = lambda _: None
        self._urls = [(service, one.strip()) for service, urls in addresses.items() for one in urls.split(",") if one]
        self._headers = headers
        self._channels: dict[tuple[str, str], _Channel] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def hand_over(self, command: HandedOver) -> bool:
        service, subject = command.topic.owner, command.envelope.subject
        usable = [channel for (name, _), channel in self._channels.items() if name == service and channel.usable]
        if not usable:
            return False
        body = encode_event(command.envelope, command.payload)
        if len(body) > _LARGEST:
            return False
        # All gateways choose alike, and a process that comes or goes moves no other one's subjects.
        chosen = max(usable, key=lambda channel: crc32(f"{channel.url} {subject}".encode()))
        return await chosen.send(command, body)

    async def run(self) -> None:
        """Keeps the channels open until cancelled."""
        try:
            async with aiohttp.ClientSession() as session:
                while True:
                    await self._follow_addresses(session)
                    await asyncio.sleep(_RESOLVE_SECONDS)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()
            self._channels.clear()

    async def _follow_addresses(self, session: aiohttp.ClientSession) -> None:
        """Begins channels to addresses that are new, and ends those that were lost and are named no more."""
        named = {(service, url) for service, name in self._urls for url in await _resolved(name)}
        for key in named - self._channels.keys():
            channel = self._channels[key] = _Channel(key[1], self)
            self._tasks[key] = asyncio.create_task(channel.run(session, self._headers), name="channel")
        for key in [key for key, channel in self._channels.items() if key not in named and not channel.connected]:
            self._tasks.pop(key).cancel()
            del self._channels[key]


class _Channel:
    """The connection to one process, made anew whenever it is lost."""

    def __init__(self, url: str, channels: ServiceCommandChannels) -> None:
        self.url = url
        self._channels = channels
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._is_leaving = False
        self._is_silent = False
        self._heard_at = 0.0
        # When each was handed over of the commands of which nothing was heard since.
        self._unheard: dict[str, tuple[float, HandedOver]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._pinging: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def usable(self) -> bool:
        return self._socket is not None and not (self._is_leaving or self._is_silent)

    async def send(self, command: HandedOver, body: bytes) -> bool:
        """Whether the process was given the command, or it is left to the bus already."""
        connection, command_id = self._socket, command.envelope.id
        assert connection is not None, "only a usable channel is chosen"
        self._unheard[command_id] = (asyncio.get_running_loop().time(), command)
        self._start_timer()
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await connection.send_bytes(body)
        except (TimeoutError, aiohttp.ClientError, ConnectionError):
            return self._unheard.pop(command_id, None) is None
        return True

    async def run(self, session: aiohttp.ClientSession, headers: Callable[[], dict[str, str]]) -> None:
        """Connects and reads, again and again, until cancelled."""

        def log(problem: Exception, attempt: int) -> None:
            if attempt == 1:
                _log.info("channel.not_open", address=self.url, problem=repr(problem))

        while True:
            # An end that the process did not announce by an error is one, too: its successor takes a moment.
            await _RECONNECT.run(lambda: self._connect(session, headers()), on=Exception, before_sleep=log)
            await self._read()

    async def _connect(self, session: aiohttp.ClientSession, headers: dict[str, str]) -> None:
        async with asyncio.timeout(_CONNECT_SECONDS):
            # Pings find out about a machine that has vanished; a process that has ended closes by itself.
            self._socket = await session.ws_connect(
                self.url + CHANNEL_PATH, headers=headers, heartbeat=_HEARTBEAT_SECONDS, max_msg_size=0, compress=0
            )
        self._is_leaving = self._is_silent = False
        _log.info("channel.open", address=self.url)

    async def _read(self) -> None:
        assert self._socket is not None, "it was connected a moment ago"
        loop = asyncio.get_running_loop()
        try:
            async for message in self._socket:
                self._heard_at = loop.time()
                self._is_silent = False
                if message.type is aiohttp.WSMsgType.BINARY:
                    self._receive(message.data)
                elif message.type is aiohttp.WSMsgType.TEXT:
                    self._hear(message.data)
        finally:
            connection, self._socket = self._socket, None
            _log.info("channel.lost", address=self.url, code=connection.close_code)
            self._return_all()
            await connection.close()

    def _receive(self, body: bytes) -> None:
        for event in decode_events(body):
            self._unheard.pop(event.envelope.causation_id or "", None)
            self._channels.on_event(event.envelope, event.payload)

    def _hear(self, text: str) -> None:
        word, _, command_id = text.partition(" ")
        if word == LEAVING:
            self._is_leaving = True
        elif word == TAKEN:
            self._unheard.pop(command_id, None)
        elif word == RETURNED and (found := self._unheard.pop(command_id, None)) is not None:
            self._channels.on_returned(found[1])

    def _return_all(self) -> None:
        unheard, self._unheard = self._unheard, {}
        for _, command in unheard.values():
            self._channels.on_returned(command)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SILENCE_SECONDS, self._check)

    def _check(self) -> None:
        """Asks for a sign of life when nothing was heard since a command; without one the commands go to the bus."""
        self._timer = None
        if self._socket is None or not self._unheard:
            return
        oldest = next(iter(self._unheard.values()))[0]
        silence = asyncio.get_running_loop().time() - max(oldest, self._heard_at)
        if silence >= 2 * _SILENCE_SECONDS:
            _log.warning("channel.silent", address=self.url, commands=len(self._unheard))
            self._is_silent = True
            self._return_all()
            return
        if silence >= _SILENCE_SECONDS:
            self._pinging = asyncio.create_task(self._ping(self._socket), name="channel.ping")
        self._start_timer()

    async def _ping(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        with suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
            async with asyncio.timeout(_SEND_SECONDS):
                await connection.send_str(PING)


async def _resolved(url: str) -> list[str]:
    """The URL with each of the addresses that its host's name stands for; none while the name is not known."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    # Certificates are for names.
    if parts.scheme != "http" or _is_address(host):
        return [url]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    addresses = dict.fromkeys(str(address[0]) for *_, address in found)
    named = (f"[{address}]" if ":" in address else address for address in addresses)
    return [urlunsplit(parts._replace(netloc=f"{address}:{port}")) for address in named]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
