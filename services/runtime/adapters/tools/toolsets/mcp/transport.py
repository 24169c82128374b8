"""The HTTP transport of the MCP SDK: guarded addresses, opened headers, bounded answers."""

from collections.abc import AsyncIterator, Callable, Mapping
from enum import IntEnum
from typing import Any, Final

import aiohttp
import httpx2

from libs.json_text import NotJson, read_json, without_half_escapes
from libs.outbound import AddressRefused, GuardedResolver, UnusableUrl, parse_url
from services.runtime.adapters.tools.toolsets.http_target import RESERVED_HEADERS
from services.runtime.domain.tools import ToolFailed

LARGEST_ANSWER: Final = 1024 * 1024
TOO_LARGE: Final = f"the answer is larger than {LARGEST_ANSWER} bytes"
_CONNECT_SECONDS: Final = 5.0
_PASSED_ON: Final = frozenset({"accept", "cache-control", "content-type", "last-event-id"})
_SESSION: Final = "mcp-session-id"
_RESUMES: Final = "last-event-id"


class Failure(IntEnum):
    """Codes of the JSON-RPC errors that stand for failed requests; a server's own are negative."""

    REFUSED = 7_300_001
    """The address may not be connected to, or a header cannot be made."""
    UNREACHABLE = 7_300_002
    """There was no connection, the request was not sent."""
    BROKEN = 7_300_003
    """The connection failed after the request, or its answer cannot be read."""
    TOO_LARGE = 7_300_004
    PASSING_STATUS = 7_300_005
    """429 or 5xx."""
    STATUS = 7_300_006
    SESSION_GONE = 7_300_007
    """The server does not know the session any more and did nothing."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one MCP connection by aiohttp, whose resolver refuses addresses that are not allowed.

    A failed request is answered with a JSON-RPC error: an exception would end the SDK's connection with all calls that
    run over it. `headers` are made for each request, so that no opened secret is kept; they may raise ToolFailed.
    Nothing is sent twice: aiohttp repeats requests of idempotent methods alone, the SDK sends POST.
    """

    def __init__(self, resolver: GuardedResolver, headers: Callable[[], Mapping[str, str]]) -> None:
        self._resolver = resolver
        self._headers = headers
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and _RESUMES not in request.headers:
            # A stream for messages outside of calls, which nobody here reads.
            return httpx2.Response(405, request=request)
        try:
            return await self._send(request)
        except AddressRefused as problem:
            return _failed(request, Failure.REFUSED, f"refused: {problem}")
        except (UnusableUrl, ToolFailed) as problem:
            return _failed(request, Failure.REFUSED, str(problem))
        except aiohttp.ClientConnectorError as problem:
            if isinstance(problem.os_error, AddressRefused):
                return _failed(request, Failure.REFUSED, f"refused: {problem.os_error}")
            return _failed(request, Failure.UNREACHABLE, "the server cannot be reached")
        except aiohttp.ConnectionTimeoutError:
            return _failed(request, Failure.UNREACHABLE, "the server cannot be reached in time")
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            return _failed(request, Failure.BROKEN, f"the connection failed: {type(problem).__name__}")

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        url = parse_url(str(request.url))
        self._resolver.check_literal(url)
        response = await self._opened().request(
            request.method, url, data=await request.aread() or None, headers=self._sent(request), allow_redirects=False
        )
        try:
            return await self._answered(request, response)
        except BaseException:
            response.close()
            raise

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False, limit=0),
                # Calls have limits of their own, which cover everything.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                headers={"Accept-Encoding": "identity", "User-Agent": "aes"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    def _sent(self, request: httpx2.Request) -> dict[str, str]:
        protocol = {
            name.lower(): value
            for name, value in request.headers.items()
            if name.lower() in _PASSED_ON or name.lower().startswith("mcp-")
        }
        own = {name.lower(): value for name, value in self._headers().items()}
        return {**{name: value for name, value in own.items() if name not in RESERVED_HEADERS}, **protocol}

    async def _answered(self, request: httpx2.Request, response: aiohttp.ClientResponse) -> httpx2.Response:
        headers = [(name, value) for name, value in response.headers.items() if name.lower() != "content-length"]
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            response.close()
            return _failed(request, Failure.BROKEN, "the answer is compressed although it was asked for plain")
        if response.status < 400 and response.content_type == "text/event-stream":
            return httpx2.Response(response.status, headers=headers, stream=_Events(response), request=request)
        body = await _read(response)
        if body is None:
            return _failed(request, Failure.TOO_LARGE, TOO_LARGE)
        if response.status == 404 and _SESSION in request.headers:
            return _failed(request, Failure.SESSION_GONE, "the server has ended the session")
        if response.status == 429 or response.status >= 500:
            return _failed(
                request, Failure.PASSING_STATUS, f"the server answered {response.status}{_error_message(body)}"
            )
        if response.status >= 400 and not _error_message(body):
            return _failed(request, Failure.STATUS, f"the server answered {response.status}")
        content = without_half_escapes(body)
        return httpx2.Response(response.status, headers=headers, content=content, request=request)


class _Events(httpx2.AsyncByteStream):
    """A stream of events, up to the size of an answer, line by line."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        rest: list[bytes] = []
        async for piece in self._response.content.iter_any():
            size += len(piece)
            if size > LARGEST_ANSWER:
                # The one error that the SDK does not answer by asking for the rest.
                raise httpx2.SSEError(TOO_LARGE)
            end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
            if end:
                yield without_half_escapes(b"".join([*rest, piece[:end]]))
                rest.clear()
            rest.append(piece[end:])
        if any(rest):
            yield without_half_escapes(b"".join(rest))

    async def aclose(self) -> None:
        self._response.close()


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """The body; None for one that is too large."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > LARGEST_ANSWER:
            response.close()
            return None
    return bytes(body)


def _error_message(body: bytes) -> str:
    """The message of a JSON-RPC error."""
    try:
        error: Any = read_json(body)["error"]
        return f": {error['message']}"
    except (NotJson, LookupError, TypeError):
        return ""


def _failed(request: httpx2.Request, failure: Failure, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": int(failure), "message": message}}
    return httpx2.Response(502, json=error, request=request)
