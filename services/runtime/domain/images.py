"""Encodes images as ``data:`` URLs in formats that models accept. Bitmaps are converted to PNG."""

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_BITMAP: Final = "image/bmp"
_UNCOMPRESSED: Final = (0, 3, 6)
"""Compression types of bitmaps with plain pixels, with color masks, and with an additional alpha mask."""
_PALETTE, _RGB, _RGBA = 3, 2, 6
_MASKS: Final = {16: (0x7C00, 0x03E0, 0x001F, 0), 24: (0xFF0000, 0xFF00, 0xFF, 0), 32: (0xFF0000, 0xFF00, 0xFF, 0)}
_NO_MASKS: Final[tuple[int, ...]] = (0, 0, 0, 0)


class UnreadableBitmap(ValueError):
    """The bitmap is damaged, or its pixels are compressed."""


def data_url(content_type: str, content: bytes) -> str:
    """Encodes an image as a ``data:`` URL. Raises ``UnreadableBitmap``."""
    if content_type in (_BITMAP, "image/x-ms-bmp"):
        content_type, content = "image/png", png_of(content)
    return f"data:{content_type};base64,{base64.b64encode(content).decode()}"


def png_of(bitmap: bytes) -> bytes:
    """Converts a bitmap to PNG. Raises ``UnreadableBitmap``."""
    try:
        found = _read(bitmap)
        rows = b"".join(b"\0" + row for row in found.rows())
    except (struct.error, IndexError, KeyError) as problem:
        raise UnreadableBitmap("the bitmap is damaged") from problem
    head = struct.pack(">IIBBBBB", found.width, found.height, found.depth, found.kind, 0, 0, 0)
    palette = _chunk(b"PLTE", found.palette) if found.palette else b""
    pixels = _chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + palette + pixels + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@dataclass(frozen=True, slots=True)
class _Bitmap:
    """A parsed bitmap. ``masks`` are for red, green, blue and alpha. With a ``palette``, pixels are indexes into it."""

    pixels: memoryview
    width: int
    height: int
    bits: int
    stride: int
    is_upside_down: bool
    palette: bytes
    masks: tuple[int, ...]

    @property
    def kind(self) -> int:
        return _PALETTE if self.palette else _RGBA if self.masks[3] else _RGB

    @property
    def depth(self) -> int:
        return self.bits if self.palette else 8

    def rows(self) -> Iterator[bytes]:
        """Yields the rows of pixels from top to bottom, as PNG stores them."""
        channels = [_tables(mask, self.bits // 8) for mask in self.masks if mask]
        length = (self.width * self.bits + 7) // 8
        numbers = range(self.height - 1, -1, -1) if self.is_upside_down else range(self.height)
        for number in numbers:
            begin = number * self.stride
            row = bytes(self.pixels[begin : begin + length])
            yield row if self.palette else self._colours(row, channels)

    def _colours(self, row: bytes, channels: list[dict[int, bytes]]) -> bytes:
        colours = bytearray(self.width * len(channels))
        for channel, tables in enumerate(channels):
            value = 0
            for byte, table in tables.items():
                value |= int.from_bytes(row[byte :: self.bits // 8].translate(table), "big")
            colours[channel :: len(channels)] = value.to_bytes(self.width, "big")
        return bytes(colours)


def _read(bitmap: bytes) -> _Bitmap:
    (start, head) = struct.unpack_from("<II", bitmap, 10)
    compression = colours = 0
    if head == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", bitmap, 18)
    else:
        width, height, _, bits, compression, _, _, _, colours = struct.unpack_from("<iiHHIIiiI", bitmap, 18)
    if compression not in _UNCOMPRESSED:
        raise UnreadableBitmap("bitmaps with compressed pixels aren't supported")
    stride = (width * bits + 31) // 32 * 4
    if width <= 0 or height == 0 or bits not in (1, 4, 8, 16, 24, 32) or start + stride * abs(height) > len(bitmap):
        raise UnreadableBitmap("the bitmap is damaged")
    palette, masks = b"", _NO_MASKS
    if bits <= 8:
        palette = _palette(bitmap, 14 + head, 3 if head == 12 else 4, min(colours or 1 << bits, 1 << bits), 1 << bits)
    else:
        masks = _masks(bitmap, head, compression, bits)
    pixels = memoryview(bitmap)[start : start + stride * abs(height)]
    return _Bitmap(pixels, width, abs(height), bits, stride, height > 0, palette, masks)


def _masks(bitmap: bytes, head: int, compression: int, bits: int) -> tuple[int, ...]:
    if compression == 0:
        return _MASKS[bits]
    has_transparency = compression == 6 or head >= 56
    red, green, blue, alpha = struct.unpack_from("<4I", bitmap, 54)
    if not (red and green and blue) or (red | green | blue) >> bits:
        raise UnreadableBitmap("the bitmap is damaged")
    return red, green, blue, alpha if has_transparency else 0


def _palette(bitmap: bytes, start: int, size: int, given: int, most: int) -> bytes:
    """Returns the RGB values of a palette's ``most`` colors. Colors that the bitmap doesn't define are black."""
    colours = bitmap[start : start + size * given]
    palette = bytearray(3 * most)
    for channel in range(3):
        found = colours[2 - channel :: size]
        palette[channel : 3 * len(found) : 3] = found
    return bytes(palette)


def _tables(mask: int, size: int) -> dict[int, bytes]:
    """Returns a table for each byte of a pixel. It maps the byte to its contribution to an eight-bit channel."""
    shift = (mask & -mask).bit_length() - 1
    bits = mask.bit_length() - shift
    return {
        byte: bytes(_in_eight_bits((value << 8 * byte & mask) >> shift, bits) for value in range(256))
        for byte in range(size)
        if mask >> 8 * byte & 0xFF
    }


def _in_eight_bits(value: int, bits: int) -> int:
    """Scales a value to eight bits by repeating its bits, so that the largest value becomes 255."""
    found, shift = 0, 8 - bits
    while shift > -bits:
        found |= value << shift if shift >= 0 else value >> -shift
        shift -= bits
    return found & 0xFF
