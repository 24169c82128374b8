"""Dumps and restores databases with PostgreSQL's client programs."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.local.errors import StackError
from deploy.local.postgres import installation


def dump(url: str, file: Path) -> None:
    """Writes a consistent snapshot of a database to a file. Raises StackError if that fails."""
    _run("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", f"--file={file}"], url)


def load(url: str, file: Path) -> None:
    """Loads a dump into an empty database, either completely or not at all. Raises StackError if that fails."""
    # Only the administrator owns the extensions and can set their comments.
    options = ["--no-owner", "--no-privileges", "--no-comments", "--single-transaction", "--exit-on-error"]
    _run("pg_restore", [*options, str(file)], url)


@dataclass(frozen=True)
class Program:
    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables for the program."""


def find(name: str) -> Program:
    """Returns the embedded stack's PostgreSQL client program, or else this machine's.

    Raises StackError if there's neither.
    """
    try:
        packaged = installation() / "bin" / name
    except StackError:
        packaged = Path()
    if packaged.is_file():
        return Program(packaged, _with_tls())
    if found := shutil.which(name):
        return Program(Path(found))
    raise StackError(
        f"{name} isn't installed.", "Install PostgreSQL's client programs. They must be at least as new as the server."
    )


def _with_tls() -> dict[str, str]:
    # The libpq of the embedded stack lacks TLS, so psycopg's replaces it. Where this isn't possible, as on macOS, TLS
    # requires the machine's own client programs.
    driver = importlib.util.find_spec("psycopg_binary")
    if driver is None or driver.origin is None:
        return {}
    libraries = sorted((Path(driver.origin).parents[1] / "psycopg_binary.libs").glob("libpq-*.so.*"))
    return {"LD_PRELOAD": str(libraries[0])} if libraries else {}


def _run(program: str, options: Sequence[str], url: str) -> None:
    # Every user can read a process's arguments, so the password is passed in the environment.
    parts = conninfo_to_dict(url)
    password = str(parts.pop("password", ""))
    found = find(program)
    environment = {**os.environ, **found.environment, **({"PGPASSWORD": password} if password else {})}
    where = [f"--dbname={make_conninfo('', **parts)}", "--no-password"]
    done = subprocess.run(
        [str(found.path), *where, *options], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        raise StackError(f"{program} failed: {done.stderr.strip()}")
