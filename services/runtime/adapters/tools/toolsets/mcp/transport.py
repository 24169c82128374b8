"""An HTTP transport for the MCP SDK, with restrictions on addresses and sizes."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from enum import IntEnum
from typing import Any, Final

import aiohttp
import httpx2

from libs.json_text import NotJson, read_json, without_half_escapes
from libs.outbound import AddressRefused, GuardedResolver, UnusableUrl, parse_url
from services.runtime.adapters.tools.toolsets.mcp.answers import beginning, readable
from services.runtime.domain.tools import ToolFailed
from services.runtime.domain.toolsets import RESERVED_HEADERS

LARGEST_ANSWER: Final = 1024 * 1024
TOO_LARGE: Final = f"the response is larger than {LARGEST_ANSWER} bytes"
_CONNECT_SECONDS: Final = 5.0
_PASSED_ON: Final = frozenset({"accept", "cache-control", "content-type", "last-event-id"})
_SESSION: Final = "mcp-session-id"
_RESUMES: Final = "last-event-id"
_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
# After a restart, servers that return 400 instead of the protocol's 404 send these messages.
_OF_SESSION: Final = re.compile(r"session|not initialized", re.IGNORECASE)
_INVALID_PARAMS: Final = -32602


class Failure(IntEnum):
    """The JSON-RPC error codes of failed requests. They're positive, because a server's own codes are negative."""

    REFUSED = 7_300_001
    """The address isn't allowed, or a header can't be built."""
    UNREACHABLE = 7_300_002
    """Connecting failed; the request wasn't sent."""
    BROKEN = 7_300_003
    """The connection failed after the request was sent, or the response can't be read."""
    TOO_LARGE = 7_300_004
    PASSING_STATUS = 7_300_005
    """The server returned 429 or 5xx."""
    STATUS = 7_300_006
    SESSION_GONE = 7_300_007
    """The server no longer recognizes the session and didn't execute the request."""
    UNEXPLAINED = 7_300_008
    """The server returned 400 without a reason, possibly because of an unknown session."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one MCP connection through aiohttp, whose resolver rejects forbidden addresses.

    A failed request returns a JSON-RPC error, because an exception would end the SDK's connection and all of its calls.
    `headers` is called for each request, so that no decrypted secret is stored. It may raise ToolFailed.
    """

    def __init__(self, resolver: GuardedResolver, headers: Callable[[], Mapping[str, str]]) -> None:
        self._resolver = resolver
        self._headers = headers
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, limit=0),
            # Calls have their own time limits, which cover the whole request.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            headers={"Accept-Encoding": "identity", "User-Agent": "aes"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and _RESUMES not in request.headers:
            # The SDK requests a stream of messages outside of calls, which this service doesn't read.
            return httpx2.Response(405, request=request)
        try:
            return await self._send(request)
        except AddressRefused as problem:
            return _failed(request, Failure.REFUSED, f"the address isn't allowed: {problem}")
        except (UnusableUrl, ToolFailed) as problem:
            return _failed(request, Failure.REFUSED, str(problem))
        except aiohttp.ClientConnectorError as problem:
            if isinstance(problem.os_error, AddressRefused):
                return _failed(request, Failure.REFUSED, f"the address isn't allowed: {problem.os_error}")
            return _failed(request, Failure.UNREACHABLE, "couldn't connect to the server")
        except aiohttp.ConnectionTimeoutError:
            return _failed(request, Failure.UNREACHABLE, "connecting to the server timed out")
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            return _failed(request, Failure.BROKEN, f"the connection failed: {type(problem).__name__}")

    async def aclose(self) -> None:
        await self._session.close()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        url = parse_url(str(request.url))
        self._resolver.check_literal(url)
        response = await self._session.request(
            request.method, url, data=await request.aread() or None, headers=self._sent(request), allow_redirects=False
        )
        try:
            return await self._answered(request, response)
        except BaseException:
            response.close()
            raise

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
            return _failed(
                request, Failure.BROKEN, "the response is compressed, although the request didn't allow compression"
            )
        if response.status < 400 and response.content_type == "text/event-stream":
            return httpx2.Response(
                response.status, headers=headers, stream=_Events(response, await request.aread()), request=request
            )
        body, whole = await _read(response)
        if not whole:
            part = beginning(body, await request.aread()) if response.status < 400 else None
            if part is None:
                return _failed(request, Failure.TOO_LARGE, TOO_LARGE)
            body = part
        if _SESSION in request.headers and response.status in (400, 404):
            if response.status == 404:
                return _failed(request, Failure.SESSION_GONE, "the server has ended the session")
            if _is_about_the_session(body):
                return _failed(request, Failure.SESSION_GONE, f"the server returned status 400{_error_message(body)}")
            if not _error_message(body):
                return _failed(request, Failure.UNEXPLAINED, "the server returned status 400")
        if response.status == 429 or response.status >= 500:
            return _failed(
                request, Failure.PASSING_STATUS, f"the server returned status {response.status}{_error_message(body)}"
            )
        if response.status >= 400 and not _error_message(body):
            return _failed(request, Failure.STATUS, f"the server returned status {response.status}")
        body = without_half_escapes(body)
        if whole and response.status < 400:
            body = readable(body)
        return httpx2.Response(response.status, headers=headers, content=body, request=request)


class _Events(httpx2.AsyncByteStream):
    """A stream of complete server-sent events, limited to the maximum size of a response."""

    def __init__(self, response: aiohttp.ClientResponse, request: bytes) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, held = 0, bytearray()
        async for piece in self._response.content.iter_any():
            size += len(piece)
            # A line end may be split across two pieces.
            searched = max(len(held) - 3, 0)
            held += piece if size <= LARGEST_ANSWER else piece[: LARGEST_ANSWER - size]
            while end := _EVENT_END.search(held, searched):
                yield _readable_event(without_half_escapes(bytes(held[: end.end()])))
                del held[: end.end()]
                searched = 0
            if size > LARGEST_ANSWER:
                part = beginning(without_half_escapes(_data(held)), self._request)
                if part is None:
                    # After any other error, the SDK would request the rest of the stream.
                    raise httpx2.SSEError(TOO_LARGE)
                yield _event(part)
                return
        yield without_half_escapes(bytes(held))

    async def aclose(self) -> None:
        self._response.close()


def _readable_event(event: bytes) -> bytes:
    data = _data(event)
    made = readable(data)
    if made is data:
        return event
    # The ID is kept, because the SDK needs it to resume an interrupted stream.
    kept = [line for line in _LINE_END.split(event) if line and not line.startswith((b"data:", b":"))]
    return b"".join(line + b"\n" for line in kept) + _event(made)


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _data(event: bytes | bytearray) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in _LINE_END.split(event) if line.startswith(b"data:")]
    return b"\n".join(bytes(line) for line in lines)


async def _read(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """Returns the body, cut at the size limit, and whether it's complete."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > LARGEST_ANSWER:
            response.close()
            return bytes(body[:LARGEST_ANSWER]), False
    return bytes(body), True


def _is_about_the_session(body: bytes) -> bool:
    """Returns whether a 400 response is about an unknown session rather than invalid arguments."""
    try:
        error: Any = read_json(body)["error"]
        return error["code"] != _INVALID_PARAMS and _OF_SESSION.search(error["message"]) is not None
    except (NotJson, LookupError, TypeError):
        return _OF_SESSION.search(body[:2_000].decode("utf-8", "replace")) is not None


def _error_message(body: bytes) -> str:
    """Returns a colon and the message of a JSON-RPC error, or ""."""
    try:
        error: Any = read_json(body)["error"]
        return f": {error['message']}"
    except (NotJson, LookupError, TypeError):
        return ""


def _failed(request: httpx2.Request, failure: Failure, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": int(failure), "message": message}}
    return httpx2.Response(502, json=error, request=request)
