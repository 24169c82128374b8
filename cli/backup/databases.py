"""Dumps databases into files and loads them with pg_dump and pg_restore."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cli.backup.programs import find
from deploy.local.errors import StackError

# Events published shortly before the backup began may be missing in consumers' databases that were read earlier.
_SLACK = "1 hour"


def dump(url: str, file: Path) -> None:
    """Dumps a database as of one moment. Raises StackError."""
    _run("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", f"--file={file}"], url)


def load(url: str, file: Path) -> None:
    """Loads a dump into an empty database, completely or not at all. Raises StackError."""
    # Only an extension's owner, the administrator, may set its comment.
    options = ["--no-owner", "--no-privileges", "--no-comments", "--single-transaction", "--exit-on-error"]
    _run("pg_restore", [*options, str(file)], url)


def is_empty(url: str) -> bool:
    return _value(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0


def migration(url: str) -> str:
    return str(_value(url, "SELECT version_num FROM alembic_version"))


def now(url: str) -> str:
    """The database's clock, in UTC."""
    return str(_value(url, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"))


def publish_again(url: str, since: str) -> int:
    """Marks the events published since ``start`` as unpublished, so that they are sent again; returns their number.

    They keep their ids, so that consumers that have processed one skip it.
    """
    with _database_errors(), psycopg.connect(url) as connection:
        found = connection.execute(
            "UPDATE outbox SET published_at = NULL, attempts = 0"
            " WHERE published_at >= %s::timestamptz - %s::interval AND parked_at IS NULL",
            (since, _SLACK),
        )
        return found.rowcount


def forget_positions(url: str) -> None:
    """Lets the timeline read the bus from its beginning: the offsets up to which it is filled are of another bus.

    What it has already is found by its id.
    """
    with _database_errors(), psycopg.connect(url) as connection:
        connection.execute("DELETE FROM timeline_offsets")


def _value(url: str, statement: LiteralString) -> object:
    with _database_errors(), psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        row = connection.execute(statement).fetchone()
    return row[0] if row else None


@contextmanager
def _database_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as problem:
        raise StackError(f"PostgreSQL: {problem}") from problem


def _run(program: str, options: Sequence[str], url: str = "") -> None:
    # Every user can read a process's arguments, so the password goes through the environment.
    parts = conninfo_to_dict(url)
    password = str(parts.pop("password", ""))
    where = [f"--dbname={make_conninfo('', **parts)}", "--no-password"] if url else []
    found = find(program)
    environment = {**os.environ, **found.environment, **({"PGPASSWORD": password} if password else {})}
    done = subprocess.run(
        [str(found.path), *where, *options],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        raise StackError(f"{program} failed: {done.stderr.strip()}")
