"""Forms that upload blobs, and headers of downloads."""

import random
from collections.abc import AsyncIterator

import pytest

from libs.blobs._receiving import checked_pieces
from libs.blobs.downloads import wanted
from libs.blobs.forms import boundary_of, file_parts
from libs.contracts.errors import InvalidRequest, ServiceError, TooLarge, UnsupportedMediaType, ValidationFailed


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


FORM = "multipart/form-data; boundary=x"
PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n%s\r\nhello\r\n--x--\r\n'
HARMFUL = (
    *(b"\0", b"\t", b"\r\n", b'"', b"\\", b"\xe9", b"\xff", b"--x", b"--x--"),
    *(b"*=idna''xn--%ff", b"Content-Length: 3\r\n"),
)


async def names_in(body: bytes, content_type: str = FORM) -> list[str]:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 50):
            yield body[start : start + 50]

    found = []
    async for part in file_parts(pieces(), content_type):
        found.append(part.name)
        async for _ in part.pieces:
            pass
    return found


async def test_a_name_that_is_no_utf_8_is_refused_in_plain_words() -> None:
    assert await names_in(PART % ("café.txt".encode(), b"")) == ["café.txt"]
    with pytest.raises(InvalidRequest) as refused:
        await names_in(PART % ("café.txt".encode("latin-1"), b""))
    assert refused.value.message == "The body isn't a valid multipart form: Segment header failed to decode."


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        # .NET sends both.
        (b"=?utf-8?B?R3LDvMOfZS50eHQ=?=\"; filename*=utf-8''Gr%C3%BC%C3%9Fe.txt; x=\"", "Grüße.txt"),
        (b"=?utf-8?B?R3LDvMOfZS50eHQ=?=", "Grüße.txt"),
        (b"=?utf-8?Q?Gr=C3=BC=C3=9Fe.txt?=", "Grüße.txt"),
        (b"a.txt\"; filename*=UTF-8'de'Gr%C3%BC%C3%9Fe.txt; x=\"", "Grüße.txt"),
        (b"a.txt\"; filename*=klingon''Gr%C3%BC.txt; x=\"", "a.txt"),
        (b"=?klingon?B?R3I=?=", "=?klingon?B?R3I=?="),
    ],
)
async def test_names_in_the_notations_that_clients_use(filename: bytes, name: str) -> None:
    assert await names_in(PART % (filename, b"")) == [name]


@pytest.mark.parametrize("boundary", ["", "é", '"\n"', '"a\x01"', "x" * 71])
def test_boundaries_that_cannot_be_told_apart_are_refused(boundary: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        boundary_of(f"multipart/form-data; boundary={boundary}")


async def test_no_form_however_broken_is_answered_with_an_exception_of_python() -> None:
    chance = random.Random(4711)
    refusals = []
    for _ in range(2_000):
        form = bytearray(PART % (b"a.txt", b"Content-Type: text/plain\r\n"))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(form))
            form[place : place + chance.randint(0, 4)] = chance.choice(HARMFUL)
        try:
            await names_in(bytes(form))
        except ServiceError as refused:
            refusals.append(refused.message)
    assert refusals
    assert [message for message in refusals if "Error" in message] == []


ETAG = '"abc"'


@pytest.mark.parametrize("given", [ETAG, f"W/{ETAG}", f'"other", {ETAG}', "*"])
def test_a_matching_etag_is_answered_without_content(given: str) -> None:
    assert wanted({"if-none-match": given, "range": "bytes=0-1"}, size=10, etag=ETAG).status == 304


@pytest.mark.parametrize("given", ["", '"other"', "abc", '"*"'])
def test_another_etag_is_answered_with_the_content(given: str) -> None:
    assert wanted({"if-none-match": given}, size=10, etag=ETAG).status == 200
