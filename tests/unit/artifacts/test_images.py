import struct

import pytest

from services.artifacts.domain.images import Dimensions, dimensions

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
BMP = b"BM" + b"\0" * 12 + struct.pack("<Iii", 40, 640, -480)
OLD_BMP = b"BM" + b"\0" * 12 + struct.pack("<IHH", 12, 640, 480)
# An application segment with a picture of its own, a restart marker and filler before the frame.
JPEG = (
    b"\xff\xd8\xff\xe1" + struct.pack(">H", 40_002) + b"\xff\xc0" * 20_000
    + b"\xff\xd0\xff\xff\xff\xc2" + struct.pack(">HBHH", 17, 8, 480, 640)
)  # fmt: skip
VP8X = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
VP8L = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 639 | 479 << 14)
VP8 = b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 7 + b"\x9d\x01\x2a" + struct.pack("<HH", 640, 480)
IMAGES = [
    ("image/png", PNG),
    ("image/gif", GIF),
    ("image/bmp", BMP),
    ("image/bmp", OLD_BMP),
    ("image/jpeg", JPEG),
    ("image/webp", VP8X),
    ("image/webp", VP8L),
    ("image/webp", VP8),
]


@pytest.mark.parametrize(("content_type", "head"), IMAGES)
def test_dimensions_are_read_from_the_beginning(content_type: str, head: bytes) -> None:
    assert dimensions(content_type, head) == Dimensions(640, 480)


@pytest.mark.parametrize(("content_type", "head"), IMAGES)
def test_a_beginning_that_breaks_off_says_nothing(content_type: str, head: bytes) -> None:
    for length in (*range(0, min(len(head), 40)), len(head) - 1):
        assert dimensions(content_type, head[:length]) is None


def test_what_has_no_area_is_no_image() -> None:
    assert dimensions("image/gif", b"GIF89a" + struct.pack("<HH", 0, 480)) is None
    assert dimensions("image/jpeg", b"\xff\xd8\xff\xe0\x00\x00") is None
