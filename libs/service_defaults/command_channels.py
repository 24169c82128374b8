"""The calling side of command channels: WebSockets to the processes that carry out a service's commands."""

import asyncio
import hashlib
import ipaddress
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import structlog
from prometheus_client import Gauge

from libs.eventing import HandedOver, OnEvent
from libs.retry import RetryPolicy
from libs.service_defaults._command_channel_route import CHANNEL_PATH, LEAVING, PING, RETURNED, TAKEN
from libs.service_defaults.internal_routes import decode_events, encode_event

_log = structlog.get_logger("service.channel")
_OPEN: Final = Gauge(
    "aes_command_channels", "Channels that are open to processes that carry out a service's commands.", ["owner"]
)
# A process takes messages of up to 512 KiB.
_LARGEST: Final = 256 * 1024
_SEND_SECONDS: Final = 1.0
_PING_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 1.0
# A timer that is later than this shows that it is this process that does not get to read.
_LATE_SECONDS: Final = 0.5
_CONNECT_SECONDS: Final = 3.0
_CLOSE_SECONDS: Final = 1.0
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
        self._urls = [
            (service, url)
            for service, urls in addresses.items()
            for one in urls.split(",")
            if (url := one.strip().rstrip("/"))
        ]
        self._headers = headers
        self._channels: dict[tuple[str, str], _Channel] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        for service in addresses:
            _OPEN.labels(service).set_function(partial(self._count_open, service))

    async def submit(self, command: HandedOver) -> bool:
        service, subject = command.topic.owner, command.envelope.subject
        usable = [channel for (name, _), channel in self._channels.items() if name == service and channel.usable]
        if not usable:
            return False
        body = encode_event(command.envelope, command.payload)
        if len(body) > _LARGEST:
            return False
        # All gateways choose alike, and a process that comes or goes moves no other one's subjects.
        chosen = usable[0] if len(usable) == 1 else max(usable, key=lambda channel: _weight(channel.url, subject))
        return await chosen.send(command, body)

    async def run(self) -> None:
        """Keeps the channels open until cancelled."""
        try:
            async with aiohttp.ClientSession() as session:
                try:
                    while True:
                        await self._follow_addresses(session)
                        await asyncio.sleep(_RESOLVE_SECONDS)
                finally:
                    for task in self._tasks.values():
                        task.cancel()
                    await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        finally:
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

    def _count_open(self, service: str) -> int:
        return sum(channel.connected for (name, _), channel in self._channels.items() if name == service)


class _Channel:
    """The connection to one process, made anew whenever it is lost."""

    def __init__(self, url: str, channels: ServiceCommandChannels) -> None:
        self.url = url
        self._channels = channels
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._is_leaving = False
        self._is_silent = False
        self._is_asked = False
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
        connection = self._socket
        return connection is not None and not (connection.closed or self._is_leaving or self._is_silent)

    async def send(self, command: HandedOver, body: bytes) -> bool:
        """Whether the process was given the command, or it is left to the bus already."""
        connection, command_id = self._socket, command.envelope.id
        assert connection is not None, "only a usable channel is chosen"
        loop = asyncio.get_running_loop()
        self._unheard.pop(command_id, None)
        self._unheard[command_id] = (loop.time(), command)
        if self._timer is None:
            self._check_at(loop.time() + _PING_SECONDS)
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
            # One that ends before anything came by it has failed, too: a process that takes nothing is left in peace.
            await _RECONNECT.run(lambda: self._converse(session, headers()), before_sleep=log)

    async def _converse(self, session: aiohttp.ClientSession, headers: dict[str, str]) -> None:
        """One connection from its beginning to its end. Raises when nothing came by it."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_SECONDS):
            # Pings find out about a machine that has vanished; a process that has ended closes by itself.
            connection = await session.ws_connect(
                self.url + CHANNEL_PATH,
                headers=headers,
                heartbeat=_HEARTBEAT_SECONDS,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                max_msg_size=0,
                compress=0,
            )
        opened = self._heard_at = loop.time()
        self._socket = connection
        self._is_leaving = self._is_silent = self._is_asked = False
        _log.info("channel.open", address=self.url)
        try:
            await self._read(connection)
        except (ValueError, AttributeError) as problem:
            _log.warning("channel.not_understood", address=self.url, problem=repr(problem))
        finally:
            self._socket = None
            _log.info("channel.lost", address=self.url, code=connection.close_code)
            self._return_all()
            await connection.close()
        if self._heard_at == opened:
            raise ConnectionError("the channel was closed at once")

    async def _read(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        loop = asyncio.get_running_loop()
        async for message in connection:
            if message.type is aiohttp.WSMsgType.ERROR:
                return
            self._heard_at = loop.time()
            self._is_silent = self._is_asked = False
            if message.type is aiohttp.WSMsgType.BINARY:
                self._receive(message.data)
            elif message.type is aiohttp.WSMsgType.TEXT:
                self._hear(message.data)

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

    def _check_at(self, due: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(due, self._check, due)

    def _check(self, due: float) -> None:
        """Asks for a sign of life when nothing was heard since a command; without one the commands go to the bus."""
        self._timer = None
        connection = self._socket
        if connection is None or not self._unheard:
            return
        now = asyncio.get_running_loop().time()
        if now - due > _LATE_SECONDS:
            # What has come meanwhile is read first.
            self._check_at(now + _ANSWER_SECONDS)
            return
        asks_at = max(next(iter(self._unheard.values()))[0], self._heard_at) + _PING_SECONDS
        if now < asks_at:
            self._check_at(asks_at)
        elif not self._is_asked:
            self._is_asked = True
            self._pinging = asyncio.create_task(_ping(connection), name="channel.ping")
            self._check_at(now + _ANSWER_SECONDS)
        else:
            _log.warning("channel.silent", address=self.url, commands=len(self._unheard))
            self._is_silent = True
            self._return_all()


async def _ping(connection: aiohttp.ClientWebSocketResponse) -> None:
    with suppress(TimeoutError, aiohttp.ClientError, ConnectionError):
        async with asyncio.timeout(_SEND_SECONDS):
            await connection.send_str(PING)


def _weight(url: str, subject: str) -> bytes:
    # No checksum: for names of equal length it prefers the same ones for half of all subjects.
    return hashlib.blake2b(f"{url} {subject}".encode(), digest_size=8).digest()


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
