"""The frames that a service and its confined processes exchange: a line of JSON, then raw bytes.

The format is JSON and not pickle, so that a process compromised by a document can't take over the service.
"""

import asyncio
import json
import struct
from typing import Any, BinaryIO

Job = dict[str, Any]
_SIZES = struct.Struct("!IQ")


def pack(head: Job, body: bytes = b"") -> list[bytes]:
    # Some files contain unpaired surrogates, which can't be encoded.
    line = json.dumps(head, ensure_ascii=False).encode(errors="replace")
    return [_SIZES.pack(len(line), len(body)), line, body]


async def receive(stream: asyncio.StreamReader, *, most_bytes: int) -> tuple[Job, bytes]:
    """Reads a frame. Raises EOFError if the other side has closed the pipe or sends more than ``most_bytes``."""
    head_size, body_size = _SIZES.unpack(await stream.readexactly(_SIZES.size))
    if head_size + body_size > most_bytes:
        raise EOFError("the other side sent too much data")
    head: Job = json.loads(await stream.readexactly(head_size))
    return head, await stream.readexactly(body_size)


def read(stream: BinaryIO) -> tuple[Job, bytes] | None:
    """Reads a frame and blocks until it's complete. Returns None at the end of the stream."""
    sizes = stream.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    head_size, body_size = _SIZES.unpack(sizes)
    return json.loads(stream.read(head_size)), stream.read(body_size)


def write(stream: BinaryIO, head: Job, body: bytes = b"") -> None:
    for part in pack(head, body):
        stream.write(part)
    stream.flush()
