"""Frames between the service and its parsing processes: a line of JSON, then raw bytes.

JSON and not pickle: a parser taken over by a malicious document must not gain the service as well.
"""

import asyncio
import struct
from typing import Any, BinaryIO

import orjson

_SIZES = struct.Struct("!IQ")


def pack(head: dict[str, Any], body: bytes = b"") -> list[bytes]:
    line = orjson.dumps(head)
    return [_SIZES.pack(len(line), len(body)), line, body]


async def receive(stream: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
    """Raises asyncio.IncompleteReadError when the other side is gone."""
    head_size, body_size = _SIZES.unpack(await stream.readexactly(_SIZES.size))
    head: dict[str, Any] = orjson.loads(await stream.readexactly(head_size))
    return head, await stream.readexactly(body_size)


def read(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """The blocking counterpart; None at the end of the stream."""
    sizes = stream.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    head_size, body_size = _SIZES.unpack(sizes)
    return orjson.loads(stream.read(head_size)), stream.read(body_size)


def expect(stream: BinaryIO) -> dict[str, Any]:
    """The head of a frame that must come."""
    frame = read(stream)
    if frame is None:
        raise EOFError("the other side is gone")
    return frame[0]


def write(stream: BinaryIO, head: dict[str, Any], body: bytes = b"") -> None:
    for part in pack(head, body):
        stream.write(part)
    stream.flush()
