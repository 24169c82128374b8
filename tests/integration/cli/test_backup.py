"""`aes backup` and `aes restore` on databases and objects that the variables name."""

import json
import os
import secrets
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from cli.app import app
from deploy.local.services import DATABASES
from tests.support.infrastructure import Infrastructure

TABLES = """
CREATE TABLE alembic_version (version_num text);
INSERT INTO alembic_version VALUES ('0007');
CREATE TABLE outbox (id int, published_at timestamptz, attempts int, parked_at timestamptz);
INSERT INTO outbox VALUES (1, now(), 1, NULL), (2, now() - interval '1 day', 1, NULL);
"""


@pytest.fixture
async def empty_url(infrastructure: Infrastructure) -> AsyncIterator[str]:
    name = f"test_{secrets.token_hex(6)}"
    yield await infrastructure.create_database(name)
    await infrastructure.drop_database(name)


def run(monkeypatch: pytest.MonkeyPatch, command: str, folder: Path, url: str, objects: Path) -> Result:
    for name in DATABASES:
        monkeypatch.delenv(f"AES_{name.upper()}_DATABASE_URL", raising=False)
        monkeypatch.delenv(f"AES_{name.upper()}_OBJECTS_URL", raising=False)
    monkeypatch.setenv("AES_ARTIFACTS_DATABASE_URL", url)
    monkeypatch.setenv("AES_ARTIFACTS_OBJECTS_URL", f"file:{objects}")
    return CliRunner().invoke(app, [command, str(folder), "--json"])


def waiting(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM outbox WHERE published_at IS NULL")]


def is_empty(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT FROM pg_tables WHERE schemaname = 'public'").fetchone() is None


def test_there_and_back(database_url: str, empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(TABLES)
    source, target, folder = tmp_path / "source", tmp_path / "target", tmp_path / "backup"
    (source / ".partial").mkdir(parents=True)
    (source / "one").write_bytes(b"1")
    (source / "two").write_bytes(b"22")

    made = run(monkeypatch, "backup", folder, database_url, source)
    assert made.exit_code == 0, made.output
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path

    # One that fails leaves the one before as it was.
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    source.rename(tmp_path / "away")
    failed = run(monkeypatch, "backup", folder, database_url, source)
    assert failed.exit_code == 1, failed.output
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    # Neither a lost object nor a damaged one goes unnoticed, before anything is written.
    lost = folder / "objects" / "artifacts" / "two"
    for content, told in ((b"2x", "two (corrupt)"), (None, "two (missing)")):
        lost.unlink() if content is None else lost.write_bytes(content)
        refused = run(monkeypatch, "restore", folder, empty_url, target)
        assert refused.exit_code == 1
        error = json.loads(refused.stdout)["error"]
        assert error["message"] == f"Objects of artifacts are missing or corrupt (1 of 2): {told}."
        assert is_empty(empty_url)
        assert not target.exists()

    # Nor does the next backup leave it so.
    (tmp_path / "away").rename(source)
    lost.write_bytes(b"2x")
    for path in (folder / "objects" / "artifacts").iterdir():
        os.utime(path)
    again = run(monkeypatch, "backup", folder, database_url, source)
    assert again.exit_code == 0, again.output
    assert lost.read_bytes() == b"22"

    restored = run(monkeypatch, "restore", folder, empty_url, tmp_path / "other")
    assert restored.exit_code == 0, restored.output
    assert json.loads(restored.stdout) == {"published_again": {"artifacts": 1}}
    assert waiting(empty_url) == [1]
    assert (tmp_path / "other" / "two").read_bytes() == b"22"
