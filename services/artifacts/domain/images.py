"""Reads an image's width and height from its header, without decoding it."""

import struct
from collections.abc import Callable
from typing import Final

HEAD_BYTES: Final = 512 * 1024
"""Large enough for a JPEG that has a camera's preview image before its dimensions."""
_NO_FRAME: Final = frozenset({0xC4, 0xC8, 0xCC})
_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD8)})


def dimensions(content_type: str, head: bytes) -> tuple[int, int] | None:
    """Returns the image's width and height in pixels, or None if the file is corrupt or not an image of this type."""
    try:
        width, height = _READERS[content_type](head)
    except (struct.error, IndexError, ValueError):
        return None
    return (width, height) if width > 0 and height > 0 else None


def _png(head: bytes) -> tuple[int, int]:
    if head[12:16] != b"IHDR":
        raise ValueError("no header")
    width, height = struct.unpack_from(">II", head, 16)
    return width, height


def _gif(head: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", head, 6)
    return width, height


def _bmp(head: bytes) -> tuple[int, int]:
    (size,) = struct.unpack_from("<I", head, 14)
    width, height = struct.unpack_from("<HH" if size == 12 else "<ii", head, 18)
    # A negative height means rows from top to bottom.
    return width, abs(height)


def _webp(head: bytes) -> tuple[int, int]:
    kind = head[12:16]
    if kind == b"VP8X":
        return _three(head, 24), _three(head, 27)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", head, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError("unknown WebP format")


def _three(head: bytes, start: int) -> int:
    if len(head) < start + 3:
        raise IndexError(start)
    return int.from_bytes(head[start : start + 3], "little") + 1


def _jpeg(head: bytes) -> tuple[int, int]:
    offset = 2
    while True:
        if head[offset] != 0xFF:
            raise ValueError("no marker")
        marker = head[offset + 1]
        offset += 1 if marker == 0xFF else 2
        if marker == 0xFF or marker in _WITHOUT_LENGTH:
            continue
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", head, offset + 3)
            return width, height
        (length,) = struct.unpack_from(">H", head, offset)
        if length < 2:
            raise ValueError("no length")
        offset += length


_READERS: Final[dict[str, Callable[[bytes], tuple[int, int]]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/bmp": _bmp,
    "image/webp": _webp,
}
