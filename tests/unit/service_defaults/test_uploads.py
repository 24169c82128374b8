from collections.abc import AsyncIterator

import pytest

from libs.contracts.errors import ServiceError, TooLarge, UnsupportedMediaType, ValidationFailed
from libs.service_defaults.uploads import checked_pieces


class Incoming:
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.heads: list[bytes] = []
        self.passed: list[bytes] = []

    async def take_in(self) -> None:
        async for piece in checked_pieces("a.txt", self._come(), self._look, head_bytes=4, max_bytes=10):
            self.passed.append(piece)

    async def _come(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece

    def _look(self, head: bytes) -> None:
        assert not self.passed
        self.heads.append(head)
        if head.startswith(b"MZ"):
            raise UnsupportedMediaType("no text")


@pytest.mark.parametrize(
    ("pieces", "head"),
    [
        ((b"abcdef", b"gh"), b"abcdef"),
        ((b"a", b"b", b"c", b"d", b"efgh"), b"abcd"),
        ((b"ab",), b"ab"),
        ((b"abcdefghij",), b"abcdefghij"),
    ],
)
async def test_files_pass_whole_after_a_look_at_their_beginning(pieces: tuple[bytes, ...], head: bytes) -> None:
    incoming = Incoming(*pieces)
    await incoming.take_in()
    assert (incoming.heads, b"".join(incoming.passed)) == ([head], b"".join(pieces))


@pytest.mark.parametrize(
    ("pieces", "raised", "passed"),
    [
        ((), ValidationFailed, []),
        ((b"MZ", b"..."), UnsupportedMediaType, []),
        ((b"abcdef", b"ghijk"), TooLarge, [b"abcdef"]),
    ],
)
async def test_what_cannot_be_taken(pieces: tuple[bytes, ...], raised: type[ServiceError], passed: list[bytes]) -> None:
    incoming = Incoming(*pieces)
    with pytest.raises(raised):
        await incoming.take_in()
    assert incoming.passed == passed
