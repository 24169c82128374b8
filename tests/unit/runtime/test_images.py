"""Bitmaps as PNG: the same pixels, whatever form the bitmap has them in."""

import base64
import struct
import zlib

import pytest

from services.runtime.domain.images import UnreadableBitmap, data_url, png_of

# Two rows of two pixels, from the top: red and green, blue and white.
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
PIXELS = [[RED, GREEN], [BLUE, WHITE]]


def bitmap(
    rows: list[bytes], bits: int, *, top_down: bool = False, compression: int = 0, behind: bytes = b"", colours: int = 0
) -> bytes:
    """``rows`` from the top, without their padding; ``behind`` the head: masks or a palette."""
    padded = [row + bytes(-len(row) % 4) for row in rows]
    pixels = b"".join(padded if top_down else reversed(padded))
    head = struct.pack(
        "<IiiHHIIiiII", 40, 2, -2 if top_down else 2, 1, bits, compression, len(pixels), 0, 0, colours, 0
    )
    start = 14 + len(head) + len(behind)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + head + behind + pixels


def pixels_of(png: bytes) -> list[list[tuple[int, ...]]]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, offset = {}, 8
    while offset < len(png):
        (length,) = struct.unpack_from(">I", png, offset)
        kind, content = png[offset + 4 : offset + 8], png[offset + 8 : offset + 8 + length]
        assert struct.unpack_from(">I", png, offset + 8 + length)[0] == zlib.crc32(kind + content)
        chunks[kind] = content
        offset += 12 + length
    width, height, depth, kind, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    samples = {2: 3, 3: 1, 6: 4}[kind]
    length = (width * samples * depth + 7) // 8
    data = zlib.decompress(chunks[b"IDAT"])
    assert len(data) == height * (1 + length)
    found = []
    for row in range(height):
        assert data[row * (1 + length)] == 0
        line = data[row * (1 + length) + 1 : (row + 1) * (1 + length)]
        if kind == 3:
            palette = chunks[b"PLTE"]
            numbers = [(line[n * depth // 8] >> (8 - depth - n * depth % 8)) & ((1 << depth) - 1) for n in range(width)]
            found.append([tuple(palette[3 * n : 3 * n + 3]) for n in numbers])
        else:
            found.append([tuple(line[samples * n : samples * (n + 1)]) for n in range(width)])
    return found


def bgr(*colours: tuple[int, int, int], rest: bytes = b"") -> bytes:
    return b"".join(bytes(reversed(colour)) + rest for colour in colours)


PALETTE = bgr(RED, GREEN, BLUE, WHITE, rest=b"\0")
OF_555 = [struct.pack("<HH", 0x7C00, 0x03E0), struct.pack("<HH", 0x001F, 0x7FFF)]
OF_565 = [struct.pack("<HH", 0xF800, 0x07E0), struct.pack("<HH", 0x001F, 0xFFFF)]
FORMS = {
    "24 bits": bitmap([bgr(RED, GREEN), bgr(BLUE, WHITE)], 24),
    "from top to bottom": bitmap([bgr(RED, GREEN), bgr(BLUE, WHITE)], 24, top_down=True),
    "32 bits": bitmap([bgr(RED, GREEN, rest=b"\x07"), bgr(BLUE, WHITE, rest=b"\x07")], 32),
    "16 bits": bitmap(OF_555, 16),
    "16 bits with masks": bitmap(OF_565, 16, compression=3, behind=struct.pack("<III", 0xF800, 0x07E0, 0x001F)),
    "8 bits": bitmap([b"\0\1", b"\2\3"], 8, behind=PALETTE, colours=4),
    "4 bits": bitmap([b"\x01", b"\x23"], 4, behind=PALETTE, colours=4),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_bitmap_becomes_a_png_with_the_same_pixels(form: str) -> None:
    assert pixels_of(png_of(FORMS[form])) == PIXELS


def test_black_and_white_by_one_bit() -> None:
    drawn = bitmap([b"\x80", b"\x40"], 1, behind=bgr((0, 0, 0), WHITE, rest=b"\0"))
    black = (0, 0, 0)
    assert pixels_of(png_of(drawn)) == [[WHITE, black], [black, WHITE]]


def test_the_oldest_head_has_colours_of_three_bytes() -> None:
    head = struct.pack("<IHHHH", 12, 2, 2, 1, 8)
    colours = bgr(RED, GREEN, BLUE, WHITE) + bytes(3 * 252)
    start = 14 + len(head) + len(colours)
    pixels = b"\2\3\0\0" + b"\0\1\0\0"
    drawn = b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + head + colours + pixels
    assert pixels_of(png_of(drawn)) == PIXELS


def test_transparency_is_kept() -> None:
    masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    rows = [bgr(RED, rest=b"\x80") + bgr(GREEN, rest=b"\xff"), bgr(BLUE, WHITE, rest=b"\0")]
    found = pixels_of(png_of(bitmap(rows, 32, compression=6, behind=masks)))
    assert found == [[(*RED, 128), (*GREEN, 255)], [(*BLUE, 0), (*WHITE, 0)]]


@pytest.mark.parametrize(
    "damaged",
    [
        b"BM",
        FORMS["24 bits"][:-1],
        FORMS["24 bits"][:20],
        bitmap([b"\0\1", b"\2\3"], 8, compression=1, behind=PALETTE),
        bitmap(OF_565, 16, compression=3, behind=bytes(12)),
        bitmap([bgr(RED, GREEN), bgr(BLUE, WHITE)], 23),
    ],
)
def test_one_that_cannot_be_read_is_told(damaged: bytes) -> None:
    with pytest.raises(UnreadableBitmap):
        png_of(damaged)


def test_no_provider_is_given_a_bitmap() -> None:
    kind, _, content = data_url("image/bmp", FORMS["24 bits"]).partition(";base64,")
    assert kind == "data:image/png"
    assert pixels_of(base64.b64decode(content)) == PIXELS
    assert data_url("image/gif", b"GIF89a") == "data:image/gif;base64,R0lGODlh"
