"""Calls between services over HTTP, on behalf of an identity."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from libs import tracing
from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.eventing import CommandState, IdentitySigner
from libs.service_defaults._dot_paths import NOTHING, has_dots, nothing
from libs.service_defaults._frames import unframed
from libs.service_defaults.callers import BEARER
from libs.service_defaults.correlation import HEADER, current_correlation_id

DEADLINE_SECONDS: Final = 5.0
"""How long a call takes at most. A service that asks others before it answers gives them less."""
_STREAMS: Final = aiohttp.ClientTimeout(total=None, sock_connect=DEADLINE_SECONDS, sock_read=60.0)
_TOKEN_SECONDS: Final = 120.0
# Signing costs more than the call itself; half of a token's life is left for the call to arrive.
_TOKEN_REUSED_SECONDS: Final = 60.0
_JSON: Final = "application/json"
_CONNECTIONS: Final = 200
# The process at the other end has ended or is not there; another one may answer.
_GONE: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)


@dataclass(frozen=True, slots=True)
class UpstreamResponse:
    status: int
    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class UpstreamStream:
    """An answer whose body is still coming in. Names of headers in any case."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


class UpstreamClient:
    """Reads from the internal APIs of other services, with a token minted on behalf of the caller.

    An address may be several, separated by commas, of the service's processes: calls go to them in turn. A process
    that cannot be reached, or that ends before it has answered, is passed over; with a single address, behind which
    there may be several processes as well, it is tried once more.

    A path with ``.`` or ``..`` for a name is asked of nobody: the answer is a 404.
    """

    def __init__(self, addresses: dict[str, str], signer: IdentitySigner) -> None:
        self._addresses = addresses
        self._signer = signer
        self._session: aiohttp.ClientSession | None = None
        self._streaming: aiohttp.ClientSession | None = None
        self._tokens: dict[Identity, tuple[float, str]] = {}
        self._calls = 0

    async def stop(self) -> None:
        for session in (self._session, self._streaming):
            if session is not None:
                await session.close()

    def installed(self, upstream: str) -> bool:
        """Whether this installation has that service."""
        return bool(self._addresses.get(upstream))

    async def request(
        self,
        method: str,
        upstream: str,
        path: str,
        identity: Identity,
        *,
        params: dict[str, Any] | None = None,
        body: bytes | None = None,
        deadline: float = DEADLINE_SECONDS,
    ) -> UpstreamResponse:
        """One call, answered as the upstream answered it. Raises ``ServiceUnavailable`` when it does not.

        It must be safe to repeat, as all reads are.
        """
        places = self._places(upstream)
        if has_dots(path):
            return UpstreamResponse(404, NOTHING, _JSON)
        with _calling(method, upstream) as span:
            headers = self._headers(identity)
            if body is not None:
                headers["Content-Type"] = _JSON
            answer = await self._request(places, method, upstream, path, params, body, headers, deadline)
            span.set("http.response.status_code", answer.status)
            return answer

    async def _request(
        self,
        places: list[str],
        method: str,
        upstream: str,
        path: str,
        params: dict[str, Any] | None,
        body: bytes | None,
        headers: dict[str, str],
        deadline: float,
    ) -> UpstreamResponse:
        try:
            async with asyncio.timeout(deadline):
                while True:
                    address = places.pop(0)
                    try:
                        # A redirect would carry the token to wherever it leads.
                        async with self._open().request(
                            method, address + path, params=params, data=body, headers=headers, allow_redirects=False
                        ) as response:
                            content_type = response.headers.get("Content-Type", "")
                            return UpstreamResponse(response.status, await response.read(), content_type)
                    except _GONE:
                        if not places:
                            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise _unreachable(upstream) from problem

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        upstream: str,
        path: str,
        identity: Identity,
        *,
        params: dict[str, Any] | None = None,
        body: AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[UpstreamStream]:
        """One call whose bodies are streamed, however long they are; neither may pause for more than a minute.

        The answer may be there before the body is sent to its end. Raises ``ServiceUnavailable``, the pieces of
        the answer as well.
        """
        places = self._places(upstream)
        if has_dots(path):
            yield UpstreamStream(404, {"Content-Type": _JSON}, nothing())
            return
        async with AsyncExitStack() as stack:
            span = stack.enter_context(_calling(method, upstream))

            async def begin(address: str) -> aiohttp.ClientResponse:
                request = self._open_for_streams().request(
                    method,
                    address + path,
                    params=params,
                    data=body,
                    headers={**(headers or {}), **self._headers(identity)},
                    allow_redirects=False,
                    timeout=_STREAMS,
                )
                return await stack.enter_async_context(request)

            try:
                response = await _first_reached(places, begin)
            except (aiohttp.ClientError, TimeoutError, OSError) as problem:
                raise _unreachable(upstream) from problem
            span.set("http.response.status_code", response.status)
            yield UpstreamStream(response.status, response.headers, _pieces(response, upstream))

    async def get(
        self,
        upstream: str,
        path: str,
        identity: Identity,
        params: dict[str, Any] | None = None,
        *,
        deadline: float = DEADLINE_SECONDS,
    ) -> UpstreamResponse:
        return await self.request("GET", upstream, path, identity, params=params, deadline=deadline)

    async def command_state(self, upstream: str, command_id: str, identity: Identity) -> CommandState:
        """What the upstream knows of a command (the ``ask`` of a ``CommandSender``)."""
        response = await self.get(upstream, f"/internal/commands/{command_id}", identity)
        if response.status == 404:
            return CommandState(known=False)
        if response.status == 202:
            return CommandState(known=True)
        if response.status != 200:
            raise ServiceUnavailable(f"the {upstream} service answered {response.status}")
        return CommandState(known=True, outcome=unframed(response.body))

    async def payload(self, upstream: str, path: str, company_id: str) -> bytes:
        """A payload that was too large for the bus (the ``fetch`` of a ``PayloadReader``)."""
        service = Identity(company_id=company_id, user_id="service", key_id="service", scopes=frozenset())
        response = await self.get(upstream, path, service)
        if response.status != 200:
            raise ServiceUnavailable(f"the {upstream} service answered {response.status} for a payload")
        return response.body

    def _places(self, upstream: str) -> list[str]:
        """Where to try, the one whose turn it is first."""
        addresses = self._addresses.get(upstream)
        if not addresses:
            raise ServiceUnavailable(f"this installation has no {upstream} service")
        if "," not in addresses:
            return [addresses, addresses]
        places = [address.strip() for address in addresses.split(",")]
        self._calls += 1
        first = self._calls % len(places)
        return places[first:] + places[:first]

    def _headers(self, identity: Identity) -> dict[str, str]:
        headers = {"Authorization": BEARER + self._token(identity)}
        correlation_id = current_correlation_id()
        if correlation_id:
            headers[HEADER] = correlation_id
        if (trace := tracing.current_traceparent()) is not None:
            headers["traceparent"] = trace
        return headers

    def _token(self, identity: Identity) -> str:
        now = time.time()
        made, token = self._tokens.get(identity, (0.0, ""))
        if now - made > _TOKEN_REUSED_SECONDS:
            # Identities come and go with keys; all at once is cheap, as each is made again on its next use.
            if len(self._tokens) > 10_000:
                self._tokens.clear()
            token = self._signer.sign(identity, expires_at=now + _TOKEN_SECONDS)
            self._tokens[identity] = (now, token)
        return token

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Not in the constructor: aiohttp ties a session to the running loop.
            self._session = _session()
        return self._session

    def _open_for_streams(self) -> aiohttp.ClientSession:
        """Connections of their own: uploads that stall may take them all, and short calls still get through."""
        if self._streaming is None:
            self._streaming = _session()
        return self._streaming


def _session() -> aiohttp.ClientSession:
    # Bodies are handed on as they came, under the headers that describe them.
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS), auto_decompress=False)


async def _first_reached(
    places: list[str], begin: Callable[[str], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    for address in places[:-1]:
        try:
            return await begin(address)
        except aiohttp.ClientConnectorError:
            # Nothing of the body has been taken yet.
            continue
    return await begin(places[-1])


def _calling(method: str, upstream: str) -> tracing.Span:
    attributes: dict[str, tracing.Value | None] = {"http.request.method": method, "server.address": upstream}
    return tracing.span(
        f"{method} {upstream}", tracing.Kind.CLIENT, attributes, correlation_id=current_correlation_id()
    )


async def _pieces(response: aiohttp.ClientResponse, upstream: str) -> AsyncIterator[bytes]:
    try:
        async for piece in response.content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as problem:
        raise _unreachable(upstream) from problem


def _unreachable(upstream: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"the {upstream} service cannot be reached", retry_after=2)
