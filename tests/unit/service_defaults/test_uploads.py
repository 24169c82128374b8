from collections.abc import AsyncIterator

import pytest

from libs.contracts.errors import ServiceError, TooLarge, UnsupportedMediaType, ValidationFailed
from libs.service_defaults.uploads import checked_pieces


class Upload:
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.heads: list[bytes] = []
        self.passed: list[bytes] = []

    async def pass_through(self) -> None:
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
async def test_files_pass_whole_after_a_check_of_their_first_bytes(pieces: tuple[bytes, ...], head: bytes) -> None:
    incoming = Upload(*pieces)
    await incoming.pass_through()
    assert (incoming.heads, b"".join(incoming.passed)) == ([head], b"".join(pieces))


@pytest.mark.parametrize(
    ("pieces", "raised", "passed"),
    [
        ((), ValidationFailed, []),
        ((b"MZ", b"..."), UnsupportedMediaType, []),
        ((b"abcdef", b"ghijk"), TooLarge, [b"abcdef"]),
    ],
)
async def test_refused_files(pieces: tuple[bytes, ...], raised: type[ServiceError], passed: list[bytes]) -> None:
    incoming = Upload(*pieces)
    with pytest.raises(raised):
        await incoming.pass_through()
    assert incoming.passed == passed
