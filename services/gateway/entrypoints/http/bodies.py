"""Request bodies: read with a limit while they stream in, then decoded by their media type."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from libs.contracts.errors import InvalidRequest, TooLarge, UnsupportedMediaType
from services.gateway.entrypoints.http.json_bodies import parse_json
from services.gateway.entrypoints.http.yaml_bodies import parse_yaml

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

MAX_BODY: Final = 512 * 1024
MAX_DRAIN: Final = 64 * 1024 * 1024
DRAIN_SECONDS: Final = 10.0
_READ_SECONDS: Final = 60.0
_YAML_TYPES: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
_SMALL_YAML: Final = 16 * 1024


class ClientGone(Exception):
    """The caller closed the connection before its request was complete."""


async def read_body(receive: Receive, headers: dict[bytes, bytes]) -> bytes:
    """The whole body. Raises ``TooLarge`` above 512 KiB, having taken in a bounded rest of it first.

    A client that sends without waiting would otherwise meet a reset connection instead of the answer.
    """
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > MAX_BODY:
        if headers.get(b"expect", b"").lower() != b"100-continue":
            await drain(receive)
        raise _too_large()
    try:
        async with asyncio.timeout(_READ_SECONDS):
            return await _collect(receive)
    except TimeoutError:
        raise InvalidRequest(f"The body did not arrive within {_READ_SECONDS:g} seconds.") from None


async def _collect(receive: Receive) -> bytes:
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return _checked(message.get("body", b""))
    body = bytearray()
    while True:
        if message["type"] != "http.request":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            body.clear()
            if message.get("more_body"):
                await drain(receive)
            raise _too_large()
        if not message.get("more_body"):
            return bytes(body)
        message = await receive()


def _checked(body: bytes) -> bytes:
    if len(body) > MAX_BODY:
        raise _too_large()
    return body


async def drain(receive: Receive) -> None:
    """Take in a bounded rest of a body. Raises ``ClientGone``."""
    taken = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while taken <= MAX_DRAIN:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                taken += len(message.get("body", b""))
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {MAX_BODY} bytes.")


async def decode_body(body: bytes, content_type: bytes) -> Any:
    """The values of a JSON or YAML body; the same for both."""
    media_type, _, parameters = content_type.decode("latin-1").lower().partition(";")
    media_type = media_type.strip()
    is_yaml = media_type in _YAML_TYPES or media_type.endswith("+yaml")
    if not is_yaml and media_type != "application/json":
        given = f"'{media_type[:100]}'" if media_type else "none"
        raise UnsupportedMediaType(f"The Content-Type must be application/json or application/yaml, but it is {given}.")
    _check_charset(parameters)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest("The body is not valid UTF-8.") from None
    if not is_yaml:
        return parse_json(text)
    # The parser is pure Python: half a megabyte would stop everybody else for seconds.
    if len(body) <= _SMALL_YAML:
        return parse_yaml(text)
    return await asyncio.to_thread(parse_yaml, text)


def _check_charset(parameters: str) -> None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(" \"'") not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaType("The body must be encoded as UTF-8.")
