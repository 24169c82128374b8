"""A backup that is not whole is refused before anything of it is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.backup.check import checked
from cli.backup.manifest import Dump, Manifest, dump_file
from cli.backup.places import ORDER
from deploy.local.control import bring_up
from deploy.local.declaration import DATABASES
from deploy.local.errors import StackError
from deploy.local.home import Home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    file = dump_file(tmp_path, "runtime")
    file.parent.mkdir()
    file.write_bytes(b"rows")
    moment = "2026-01-01T00:00:00.000000Z"
    manifest = Manifest(moment, moment, {"runtime": "0001"}, {"runtime": Dump.of(file)}, {"artifacts": 2}, 40)
    manifest.write(tmp_path)
    return tmp_path


def changed(folder: Path, **changes: Any) -> None:
    file = folder / "manifest.json"
    document = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({name: value for name, value in document.items() if value is not ...}))


def test_what_was_written_is_read(folder: Path) -> None:
    assert checked(folder).objects == {"artifacts": 2}
    changed(folder, added_later="is passed over")
    assert checked(folder).bytes == 40


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "2"}', '{"format": 0}', "\x00"])
def test_a_damaged_manifest(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(StackError, match="is damaged"):
        checked(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"started_at": ...},
        {"started_at": "yesterday"},
        {"finished_at": ""},
        {"migrations": {}},
        {"migrations": ["runtime"]},
        {"dumps": {}},
        {"dumps": {"runtime": {"size": 4}}},
        {"objects": {"artifacts": "2"}},
        {"bytes": None},
    ],
)
def test_a_manifest_that_lacks_something(folder: Path, changes: dict[str, Any]) -> None:
    changed(folder, **changes)
    with pytest.raises(StackError, match="is damaged"):
        checked(folder)


def test_a_newer_format(folder: Path) -> None:
    changed(folder, format=3)
    with pytest.raises(StackError, match="newer release"):
        checked(folder)


@pytest.mark.parametrize("content", [b"row", b"rowz"])
def test_a_damaged_dump(folder: Path, content: bytes) -> None:
    dump_file(folder, "runtime").write_bytes(content)
    with pytest.raises(StackError, match=r"runtime\.dump is damaged"):
        checked(folder)


def test_a_missing_dump(folder: Path) -> None:
    dump_file(folder, "runtime").unlink()
    with pytest.raises(StackError, match=r"runtime\.dump is missing"):
        checked(folder)


def test_a_dump_without_a_checksum_is_read_whole(folder: Path) -> None:
    changed(folder, format=1, dumps=...)
    with pytest.raises(StackError, match="pg_restore failed"):
        checked(folder)


def test_what_is_half_restored_is_not_started(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.restore_marker.touch()
    with pytest.raises(StackError, match=f"delete {tmp_path}, then restore again"):
        bring_up(home, lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["restoring"]


def test_every_database_is_backed_up() -> None:
    assert sorted(ORDER) == sorted(DATABASES)
