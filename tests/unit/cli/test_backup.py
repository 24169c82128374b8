"""Backups: the programs that make them, and checks of what they made."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli import dumps as programs
from cli.archive import (
    Manifest,
    checked,
    checked_objects,
    checksum,
    dump_file,
    inventory_file,
    objects_directory,
    write_inventory,
)
from cli.backup import ORDER
from deploy.local.control import bring_up
from deploy.local.errors import StackError
from deploy.local.home import Home
from deploy.local.services import DATABASES
from libs.objects import Written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    file = dump_file(tmp_path, "runtime")
    file.parent.mkdir()
    file.write_bytes(b"rows")
    objects = {}
    for name, content in (("one", b"1"), ("two", b"22")):
        path = objects_directory(tmp_path, "artifacts") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        objects[name] = Written(len(content), hashlib.sha256(content).hexdigest())
    listed = inventory_file(tmp_path, "artifacts")
    write_inventory(listed, objects)
    moment = "2026-01-01T00:00:00.000000Z"
    manifest = Manifest(
        started_at=moment,
        finished_at=moment,
        migrations={"runtime": "0001"},
        dumps={"runtime": checksum(file)},
        objects={"artifacts": 2},
        inventories={"artifacts": checksum(listed)},
        bytes=40,
    )
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
    with pytest.raises(StackError, match="is corrupt"):
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
        {"inventories": ...},
        {"inventories": {}},
        {"bytes": None},
    ],
)
def test_a_manifest_that_lacks_something(folder: Path, changes: dict[str, Any]) -> None:
    changed(folder, **changes)
    with pytest.raises(StackError, match="is corrupt"):
        checked(folder)


@pytest.mark.parametrize("number", [2, 3])
def test_another_format(folder: Path, number: int) -> None:
    changed(folder, format=number)
    with pytest.raises(StackError, match=f"format {number}"):
        checked(folder)


@pytest.mark.parametrize("content", [b"row", b"rowz"])
def test_a_damaged_dump(folder: Path, content: bytes) -> None:
    dump_file(folder, "runtime").write_bytes(content)
    with pytest.raises(StackError, match=r"runtime\.dump is corrupt"):
        checked(folder)


def test_a_missing_dump(folder: Path) -> None:
    dump_file(folder, "runtime").unlink()
    with pytest.raises(StackError, match=r"runtime\.dump is missing"):
        checked(folder)


def test_objects_as_they_were_written(folder: Path) -> None:
    (objects_directory(folder, "artifacts") / "deleted-since").write_bytes(b"333")
    assert checked_objects(folder, checked(folder))["artifacts"].keys() == {"one", "two"}


@pytest.mark.parametrize(
    ("content", "told"), [(b"2x", "two (corrupt)"), (b"2", "two (wrong size)"), (None, "two (missing)")]
)
def test_objects_that_are_not_are_named(folder: Path, content: bytes | None, told: str) -> None:
    path = objects_directory(folder, "artifacts") / "two"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(StackError) as refusal:
        checked_objects(folder, checked(folder))
    assert refusal.value.problem == f"Objects of artifacts are missing or corrupt (1 of 2): {told}."


def test_an_inventory_that_is_not_as_it_was_written(folder: Path) -> None:
    listed = inventory_file(folder, "artifacts")
    listed.write_text(listed.read_text().replace("two", "2wo"))
    with pytest.raises(StackError, match=r"artifacts\.jsonl is corrupt"):
        checked_objects(folder, checked(folder))
    listed.unlink()
    with pytest.raises(StackError, match=r"artifacts\.jsonl is missing"):
        checked_objects(folder, checked(folder))


def test_what_is_half_restored_is_not_started(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.restore_marker.touch()
    with pytest.raises(StackError, match=f"delete {tmp_path} and restore again"):
        bring_up(home, lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["restoring"]


def test_every_database_is_backed_up() -> None:
    assert sorted(ORDER) == sorted(DATABASES)


@pytest.mark.parametrize("name", ["pg_dump", "pg_restore"])
def test_programs_of_the_wheel_come_first(name: str) -> None:
    found = programs.find(name)

    assert found.path == programs.installation() / "bin" / name


def test_they_encrypt() -> None:
    found = programs.find("pg_dump")
    # Nobody answers there; a client without TLS does not come so far.
    done = subprocess.run(
        [str(found.path), "--dbname=host=127.0.0.1 port=1 user=any dbname=any sslmode=verify-full sslrootcert=system"],
        env={**os.environ, **found.environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "Connection refused" in done.stderr


def test_without_the_wheel_those_of_the_machine_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "pg_dump"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setattr(programs, "installation", lambda: tmp_path / "nothing")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert programs.find("pg_dump") == programs.Program(own)
    with pytest.raises(StackError, match="pg_restore isn't installed"):
        programs.find("pg_restore")
