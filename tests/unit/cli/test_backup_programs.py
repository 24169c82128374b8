"""Backups are made with the programs that fit, and these can do what the services' own client can."""

import os
import subprocess
from pathlib import Path

import pytest

from cli import dumps as programs
from deploy.local.errors import StackError


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
