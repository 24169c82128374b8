"""A picture of two lines of text, as scanners make them: one bit for each dot."""

import struct
from pathlib import Path

WORDS = "The harbour master opens\nthe gate at seven o'clock."
_CONTENT = Path(__file__).with_name("scan.png").read_bytes()
_FIRST_CHUNK = 8


def png() -> bytes:
    return _CONTENT


def picture() -> tuple[int, int, bytes]:
    """Width and height in dots, and the rows as PNG and PDF pack them."""
    rows = b""
    width, height, place = 0, 0, _FIRST_CHUNK
    while place < len(_CONTENT):
        length, kind = struct.unpack_from(">I4s", _CONTENT, place)
        content = _CONTENT[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", content)
        elif kind == b"IDAT":
            rows += content
        place += 12 + length
    return width, height, rows
