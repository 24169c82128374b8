"""The directory store outlives processes and disks that go away."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.contracts.errors import StoreUnavailable
from libs.objects import LocalObjects, one_piece, read_all

LARGE = bytes(1_000_000)
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
    assert writer.stdout is not None
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
