"""Calls the internal APIs of other services on behalf of an identity."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import aiohttp
import orjson
from pydantic import BaseModel, ValidationError

from libs import tracing
from libs.contracts.errors import ErrorBody, NotFound, ServiceError, ServiceUnavailable, error_from
from libs.contracts.identity import Identity
from libs.eventing import IdentitySigner, LookUp, ReplyState
from libs.service_defaults.internal_routes import BEARER, COMMANDS_PATH, decode_event
from libs.service_defaults.observed_requests import HEADER
from libs.tracing import current_correlation_id

M = TypeVar("M", bound=BaseModel)
_SKIPPED_SECONDS: Final = 10.0
DEADLINE_SECONDS: Final = 5.0
"""The maximum duration of a call. A service that makes further calls to serve the call must give them less time."""
_STREAMS: Final = aiohttp.ClientTimeout(total=None, sock_connect=DEADLINE_SECONDS, sock_read=60.0)
_TOKEN_SECONDS: Final = 120.0
# Signing takes longer than the call itself, so tokens are reused for the first half of their lifetime.
_TOKEN_REUSED_SECONDS: Final = 60.0
_JSON: Final = "application/json"
_CONNECTIONS: Final = {"answers": 200, "streams": 300}
# Errors that mean that the called process has ended or never started. Another process may respond.
_GONE: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)
# Quoting leaves these names unchanged.
_DOTS: Final = re.compile(r"/(\.|%2e){1,2}(?=[/?#]|\Z)", re.IGNORECASE)
_NOT_FOUND: Final = orjson.dumps(
    {"error": NotFound("There is nothing with this name.").info().model_dump(exclude_none=True)}
)


class UpstreamAddresses:
    """Determines the order in which a call tries the addresses of a service.

    Calls rotate among the service's processes. A process that timed out is tried last for ten seconds. Then a single
    call tries the process again, and all further calls follow once it has responded.
    """

    def __init__(self, addresses: dict[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        """``addresses`` maps each service to its comma-separated base URLs, or to "" if it isn't installed."""
        self.by_service = {name: [one.strip() for one in urls.split(",")] for name, urls in addresses.items() if urls}
        self._clock = clock
        self._skipped_until: dict[str, float] = {}
        self._calls = 0

    def in_order(self, upstream: str) -> list[str]:
        """Returns the addresses, best first. Raises ``ServiceUnavailable`` if the service isn't installed."""
        addresses = self.by_service.get(upstream)
        if not addresses:
            raise ServiceUnavailable(f"This installation has no {upstream} service.")
        if len(addresses) == 1:
            # Several processes may share the address, so a second try may reach another process.
            return addresses * 2
        self._calls += 1
        first = self._calls % len(addresses)
        rotated = addresses[first:] + addresses[:first]
        if self._skipped_until:
            rotated.sort(key=self._is_skipped)
            if rotated[0] in self._skipped_until:
                self.skip(rotated[0])
        return rotated

    def skip(self, address: str) -> None:
        """Records that the process at this address has timed out."""
        self._skipped_until[address] = self._clock() + _SKIPPED_SECONDS

    def answered(self, address: str) -> None:
        self._skipped_until.pop(address, None)

    def _is_skipped(self, address: str) -> bool:
        return self._skipped_until.get(address, 0.0) > self._clock()


@dataclass(frozen=True, slots=True)
class UpstreamResponse:
    status: int
    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class UpstreamStream:
    """A response whose body is streamed. Header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


class UpstreamClient:
    """Calls the internal APIs of other services, with a token that it mints on behalf of the caller.

    If a process can't be reached, ends before it has responded, or doesn't respond within half of the remaining time,
    the next address is tried.

    A path with a ``.`` or ``..`` segment leads to a 404 without a call, since HTTP clients would change the path.
    """

    def __init__(self, addresses: dict[str, str], signer: IdentitySigner) -> None:
        self._addresses = UpstreamAddresses(addresses)
        self.installed: Callable[[str], bool] = self._addresses.by_service.__contains__
        self._signer = signer
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._tokens: dict[Identity, tuple[float, str]] = {}

    async def stop(self) -> None:
        for session in self._sessions.values():
            await session.close()

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
        once: bool = False,
    ) -> UpstreamResponse:
        """Returns the upstream's response, whatever its status. Raises ``ServiceUnavailable`` if there's none.

        The call must be idempotent unless ``once`` is set. With ``once``, the next process is tried only if the
        connection couldn't be opened. ``deadline`` is in seconds, for all attempts together.
        """
        addresses = self._addresses.in_order(upstream)
        if _DOTS.search(path):
            return UpstreamResponse(404, _NOT_FOUND, _JSON)
        with _client_span(method, upstream) as span:
            headers = self._headers(identity)
            if body is not None:
                headers["Content-Type"] = _JSON
            sent = {"params": params, "data": body, "headers": headers}
            with _named(upstream):
                answer = await self._first_answer(addresses, method, path, sent, deadline, once=once)
            span.set("http.response.status_code", answer.status)
            return answer

    async def _first_answer(
        self, addresses: list[str], method: str, path: str, sent: dict[str, Any], deadline: float, *, once: bool
    ) -> UpstreamResponse:
        loop = asyncio.get_running_loop()
        ends = loop.time() + deadline
        unreached = (aiohttp.ClientConnectorError,) if once else _GONE
        # With a single address, a retry may reach the same process, so the first attempt gets all the time.
        several = len(set(addresses)) > 1 and not once
        for number, address in enumerate(addresses, start=1):
            left = ends - loop.time()
            is_last = number == len(addresses)
            try:
                async with asyncio.timeout(left / 2 if several and not is_last else left):
                    answer = await self._try(method, address + path, sent)
            except TimeoutError:
                if not several:
                    raise
                self._addresses.skip(address)
                if is_last:
                    raise
            except unreached:
                if is_last:
                    raise
            else:
                self._addresses.answered(address)
                return answer
        raise AssertionError("the service has no address")

    async def _try(self, method: str, url: str, sent: dict[str, Any]) -> UpstreamResponse:
        # A redirect would send the token to its target.
        async with self._session("answers").request(method, url, allow_redirects=False, **sent) as response:
            content_type = response.headers.get("Content-Type", "")
            return UpstreamResponse(response.status, await response.read(), content_type)

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
        """Makes a call whose request and response bodies are streamed and can have any length.

        A body can't pause for over a minute. Both the call and the iteration over the response's pieces raise
        ``ServiceUnavailable``.
        """
        addresses = self._addresses.in_order(upstream)
        if _DOTS.search(path):
            yield UpstreamStream(404, {"Content-Type": _JSON}, _piece(_NOT_FOUND))
            return
        async with AsyncExitStack() as stack:
            span = stack.enter_context(_client_span(method, upstream))

            async def begin(address: str) -> aiohttp.ClientResponse:
                request = self._session("streams").request(
                    method,
                    address + path,
                    params=params,
                    data=body,
                    headers={**(headers or {}), **self._headers(identity)},
                    allow_redirects=False,
                    timeout=_STREAMS,
                )
                return await stack.enter_async_context(request)

            with _named(upstream):
                response = await _first_reached(addresses, begin)
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

    async def read(
        self, model: type[M], upstream: str, path: str, identity: Identity, params: dict[str, Any] | None = None
    ) -> M:
        """Returns the entity at a path. Raises the upstream's error, or ``ServiceUnavailable``."""
        return model.model_validate_json(checked(await self.get(upstream, path, identity, params)))

    async def command_state(self, upstream: str, command_id: str, identity: Identity) -> LookUp:
        """Asks a service for a command's state. This is the ``ask`` function of a ``CommandSender``."""
        response = await self.get(upstream, f"{COMMANDS_PATH}/{command_id}", identity)
        if response.status == 200:
            return LookUp(ReplyState.ANSWERED, decode_event(response.body))
        if response.status not in (202, 404):
            raise ServiceUnavailable(f"The {upstream} service returned status {response.status}.")
        return LookUp(ReplyState.ACCEPTED if response.status == 202 else ReplyState.WAITING)

    async def payload(self, upstream: str, path: str, company_id: str) -> bytes:
        """Fetches a payload that was too large for the bus. This is the ``fetch`` function of a ``PayloadReader``."""
        response = await self.get(upstream, path, _service(company_id))
        if response.status != 200:
            raise ServiceUnavailable(f"The {upstream} service returned status {response.status} for a payload.")
        return response.body

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
            # Changed keys leave unused tokens. Dropping all tokens is cheap, since used tokens are minted again.
            if len(self._tokens) > 10_000:
                self._tokens.clear()
            token = self._signer.sign(identity, expires_at=now + _TOKEN_SECONDS)
            self._tokens[identity] = (now, token)
        return token

    def _session(self, purpose: str) -> aiohttp.ClientSession:
        """Returns the session for a purpose. Separate sessions keep stalled uploads from blocking short calls."""
        if purpose not in self._sessions:
            # Created lazily, since aiohttp ties a session to the running loop. Bodies aren't decompressed, so that they
            # still match their headers when they're passed on.
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS[purpose])
            self._sessions[purpose] = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        return self._sessions[purpose]


def _service(company_id: str) -> Identity:
    return Identity(company_id=company_id, user_id="service", key_id="service", scopes=frozenset())


def checked(answer: UpstreamResponse) -> bytes:
    """Returns the body of a successful response, or raises the response's error."""
    if answer.status < 400:
        return answer.body
    raise refusal(answer.status, answer.body)


def refusal(status: int, body: bytes, *, checks_credential: bool = False) -> ServiceError:
    """Converts an error response to an exception.

    A 401 becomes a 5xx, since it means that a service is misconfigured. With ``checks_credential``, the upstream checks
    the caller's own credentials, so a 401 is passed on.
    """
    if status != 401 or checks_credential:
        try:
            return error_from(ErrorBody.model_validate_json(body).error)
        except ValidationError:
            pass
    return ServiceUnavailable("An internal service returned an unexpected response. Try again later.", retry_after=5)


async def _first_reached(
    addresses: list[str], begin: Callable[[str], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    for address in addresses[:-1]:
        try:
            return await begin(address)
        except aiohttp.ClientConnectorError:
            # No part of the body has been sent yet.
            continue
    return await begin(addresses[-1])


def _client_span(method: str, upstream: str) -> tracing.Span:
    attributes: dict[str, tracing.Value | None] = {"http.request.method": method, "server.address": upstream}
    return tracing.span(
        f"{method} {upstream}", tracing.Kind.CLIENT, attributes, correlation_id=current_correlation_id()
    )


async def _pieces(response: aiohttp.ClientResponse, upstream: str) -> AsyncIterator[bytes]:
    with _named(upstream):
        async for piece in response.content.iter_any():
            yield piece


@contextmanager
def _named(upstream: str) -> Iterator[None]:
    """Converts failures of the HTTP client to ``ServiceUnavailable``."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as problem:
        raise ServiceUnavailable(
            f"The {upstream} service can't be reached. Try again later.", retry_after=2
        ) from problem


async def _piece(content: bytes) -> AsyncIterator[bytes]:
    yield content
