"""One suite for the stores of objects, and what is particular to each."""

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from libs.contracts.errors import StoreUnavailable
from libs.objects import (
    Entry,
    InvalidKey,
    LocalObjects,
    ObjectMissing,
    ObjectStore,
    one_piece,
    open_store,
    read_all,
)
from libs.objects.s3 import S3Objects, S3Settings

LARGE = bytes(range(256)) * 50_000  # more than two parts of a multipart upload


async def in_pieces(content: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return sorted([entry.key async for entry in store.entries(prefix)])


@pytest.mark.parametrize("content", [b"", b"x", LARGE], ids=["empty", "small", "large"])
async def test_an_object_is_hashed_and_measured(store: ObjectStore, content: bytes) -> None:
    written = await store.put("a/b/c.bin", in_pieces(content))

    assert (written.size, written.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert await read_all(store, "a/b/c.bin") == content
    assert await store.size("a/b/c.bin") == len(content)
    async with store.as_file("a/b/c.bin") as path:
        assert path.read_bytes() == content


async def test_a_part_of_an_object_can_be_read(store: ObjectStore) -> None:
    await store.put("k", in_pieces(LARGE))

    async def part(start: int, length: int | None) -> bytes:
        pieces = await store.open("k", start=start, length=length)
        return b"".join([piece async for piece in pieces])

    assert await part(5, 300_000) == LARGE[5:300_005]
    assert await part(len(LARGE) - 3, None) == LARGE[-3:]
    assert await part(0, 0) == b""
    assert await part(len(LARGE) - 2, 100) == LARGE[-2:]


async def test_reading_can_be_broken_off(store: ObjectStore) -> None:
    await store.put("k", in_pieces(LARGE))

    for _ in range(40):
        pieces = await store.open("k")
        assert await anext(pieces)
        await pieces.aclose()

    assert await read_all(store, "k") == LARGE


async def test_putting_again_replaces(store: ObjectStore) -> None:
    await store.put("k", one_piece(b"old and longer"))
    await store.put("k", one_piece(b"new"), durable=False)

    assert await read_all(store, "k") == b"new"
    assert await keys(store) == ["k"]


@pytest.mark.parametrize("before", [0, 100, len(LARGE)])
async def test_an_interrupted_put_leaves_nothing(store: ObjectStore, before: int) -> None:
    class Refused(Exception):
        pass

    async def pieces() -> AsyncIterator[bytes]:
        async for piece in in_pieces(LARGE[:before]):
            yield piece
        raise Refused

    with pytest.raises(Refused):
        await store.put("k", pieces())

    assert await store.size("k") is None
    assert await keys(store) == []


async def test_a_put_can_be_cancelled(store: ObjectStore) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        async for piece in in_pieces(LARGE):
            yield piece
        reached.set()
        await never.wait()

    putting = asyncio.create_task(store.put("k", pieces()))
    await reached.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting

    assert await keys(store) == []


async def test_a_missing_object(store: ObjectStore) -> None:
    assert await store.size("a/b") is None
    await store.delete("a/b")
    with pytest.raises(ObjectMissing):
        await store.open("a/b")
    with pytest.raises(ObjectMissing):
        async with store.as_file("a/b"):
            pass


async def test_entries_below_a_prefix(store: ObjectStore) -> None:
    for key in ("a/1", "a/b/2", "ab/3", "c"):
        await store.put(key, one_piece(key.encode()))

    assert await keys(store) == ["a/1", "a/b/2", "ab/3", "c"]
    assert await keys(store, "a/") == ["a/1", "a/b/2"]
    assert await keys(store, "none/") == []
    sizes = {entry.key: entry.size async for entry in store.entries("a/")}
    assert sizes == {"a/1": 3, "a/b/2": 5}


async def test_deleting_and_putting_nearby_at_once(store: ObjectStore) -> None:
    async def come_and_go(number: int) -> None:
        for _ in range(10):
            await store.put(f"d/{number}/x", one_piece(b"x"))
            await store.delete(f"d/{number}/x")
        await store.put(f"d/{number}/x", one_piece(b"last"))

    await asyncio.gather(*map(come_and_go, range(8)))

    assert await keys(store) == [f"d/{number}/x" for number in range(8)]


@pytest.mark.parametrize("key", ["", "/a", "a/", "../a", "a/../b", "a//b", ".a", "a b", "ä", "a" * 1000, "a\x00"])
async def test_only_plain_names_are_keys(store: ObjectStore, key: str) -> None:
    with pytest.raises(InvalidKey):
        await store.put(key, one_piece(b"x"))
    with pytest.raises(InvalidKey):
        await store.open(key)
    with pytest.raises(InvalidKey):
        await store.delete(key)


async def test_starting_again_changes_nothing(store: ObjectStore) -> None:
    await store.put("k", one_piece(b"x"))
    await store.start()
    assert await keys(store) == ["k"]


async def test_anybody_can_download_by_a_link_and_change_nothing_of_it(store: ObjectStore) -> None:
    await store.put("a/k", one_piece(b"content"))
    await store.put("a/other", one_piece(b"private"))

    disposition = 'attachment; filename="k.txt"'
    url = store.link("a/k", seconds=60, content_type="text/plain", disposition=disposition, label="what for")

    if isinstance(store, LocalObjects):
        assert url is None
        return
    assert url is not None
    async with httpx.AsyncClient(timeout=30) as http:
        answer = await http.get(url)
        assert (answer.status_code, answer.content) == (200, b"content")
        assert answer.headers["Content-Type"] == "text/plain"
        assert answer.headers["Content-Disposition"] == disposition
        for forged in (
            url.replace("a/k", "a/other"),
            url.replace("Expires=60", "Expires=6000"),
            url.replace("what", "when"),
            url[:-1] + "x",
        ):
            assert (await http.get(forged)).status_code == 403


_WRITER = """
import asyncio, sys
from pathlib import Path
from libs.objects import LocalObjects

async def pieces():
    yield bytes(1_000_000)
    print("writing", flush=True)
    await asyncio.sleep(3600)

asyncio.run(LocalObjects(Path(sys.argv[1])).put("k", pieces()))
"""


async def test_partial_files_of_a_killed_process_are_removed_at_the_next_start(tmp_path: Path) -> None:
    root = tmp_path / "objects"
    store = LocalObjects(root)
    await store.start()
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WRITER, str(root), stdout=asyncio.subprocess.PIPE
    )
    assert await writer.stdout.readline() == b"writing\n"
    writer.kill()
    await writer.wait()
    assert list((root / ".partial").iterdir())

    await store.start()

    assert not list((root / ".partial").iterdir())


async def test_partial_files_of_a_running_process_survive_the_start_of_another(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path / "objects")
    await store.start()

    async def interrupted() -> AsyncIterator[bytes]:
        yield LARGE
        await LocalObjects(tmp_path / "objects").start()
        yield b"last"

    await store.put("k", interrupted())

    assert await read_all(store, "k") == LARGE + b"last"


async def test_a_directory_that_is_away_is_an_outage_until_it_is_back(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path / "objects")
    await store.start()
    (tmp_path / "objects").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable):
        await store.put("k", one_piece(b"x"))

    (tmp_path / "elsewhere").rename(tmp_path / "objects")
    await store.put("k", one_piece(b"x"))


class Contended:
    """An S3 server at whose objects others work: so many attempts at putting one come at a bad moment."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.stored = b""

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.conflicts:
            self.conflicts -= 1
            problem = b"<Error><Code>OperationAborted</Code><Message>Try again.</Message></Error>"
            return web.Response(status=409, body=problem, content_type="application/xml")
        self.stored = body
        return web.Response(headers={"ETag": '"0"'})


@pytest.mark.parametrize(("conflicts", "is_stored"), [(2, True), (100, False)])
async def test_a_put_that_meets_another_operation_is_repeated(conflicts: int, is_stored: bool) -> None:
    contended = Contended(conflicts)
    app = web.Application()
    app.router.add_put("/{path:.*}", contended.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = f"127.0.0.1:{runner.addresses[0][1]}"
    settings = S3Settings(endpoint=endpoint, bucket="bucket", access_key="a", secret_key="b" * 8, secure=False)
    try:
        if is_stored:
            await S3Objects(settings).put("k", one_piece(b"content"))
        else:
            with pytest.raises(StoreUnavailable, match="OperationAborted"):
                await S3Objects(settings).put("k", one_piece(b"content"))
    finally:
        await runner.cleanup()
    assert (b"content" in contended.stored) is is_stored


async def test_links_name_the_public_address_of_the_server() -> None:
    store = open_store("s3://key:secret@127.0.0.1:9000/bucket?secure=false&public=https://files.example.com")
    url = store.link("k", seconds=60, content_type="text/plain", disposition="attachment", label="l")
    assert url.startswith("https://files.example.com/bucket/k?")


async def test_a_server_that_is_away_is_an_outage_for_every_operation() -> None:
    settings = S3Settings(endpoint="127.0.0.1:1", bucket="bucket", access_key="a", secret_key="s" * 8, secure=False)
    store = S3Objects(settings)

    async def listed() -> list[Entry]:
        return [entry async for entry in store.entries("")]

    operations = (store.start(), store.put("k", one_piece(b"x")), store.open("k"), store.size("k"), store.delete("k"))
    outcomes = await asyncio.gather(*operations, listed(), return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 6


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/tmp",
        "file://host/tmp",
        "s3://host/bucket",
        "s3://a:b@host",
        "s3://a:b@host/c/d",
        "s3://a:b@h/c?x=1",
        "s3://a:b@h/c?public=h",
    ],
)
def test_invalid_addresses(url: str) -> None:
    with pytest.raises(ValueError, match="object store") as problem:
        open_store(url)
    assert "a:b" not in str(problem.value)


def test_addresses() -> None:
    assert isinstance(open_store("file:/tmp/objects"), LocalObjects)
    assert isinstance(open_store("s3://key:se%2Fcret@127.0.0.1:9000/bucket?secure=false"), S3Objects)
