"""Runs Alembic's schema migrations from code."""

import ast
import gc
import hashlib
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    from alembic.config import Config

_ENVIRONMENT: Final = Path(__file__).parent / "_alembic"
_ROOT: Final = Path(__file__).parents[2]
NAMING_CONVENTION: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
LOCK_TIMEOUT: Final = "SET LOCAL lock_timeout = '2s'"
"""A short wait, since other statements queue behind a waiting revision."""
_ADVISORY_LOCK: Final = zlib.crc32(b"aes.migrations")
_TIMEOUT_SECONDS: Final = 60.0
_CHECK_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 1.0
# Alembic stores the running migration in module globals.
_ALEMBIC_LOCK: Final = threading.Lock()
# In Python 3.11, `ast.parse` fails if other code parses meanwhile, such as another thread, or a finalizer that formats
# a traceback.
_PARSING_LOCK: Final = threading.Lock()


class IncompatibleSchema(Exception):
    """The first revision has changed since the database was created. It's edited in place until the first release."""

    def __init__(self) -> None:
        super().__init__(
            "The database has an earlier schema, which this version can't migrate. Recreate the installation: run"
            " `./aes down --purge` and `./aes up`, or start with empty databases, object stores and topics."
        )


def migrate(url: str, migrations: Path) -> None:
    """Migrates the database to the newest revision in ``migrations/versions``. Raises IncompatibleSchema.

    Blocks the calling thread. Concurrent callers wait for each other for up to 60 s. A revision waits for table locks
    only 2 s at a time, so that queries behind it aren't blocked for long.
    """
    with psycopg.connect(url, autocommit=True, prepare_threshold=None, connect_timeout=10) as connection:
        if _is_current(connection, migrations):
            return
        with _locked(connection):
            if is_migrated(url, migrations):
                return
            with _ALEMBIC_LOCK:
                _upgrade_patiently(url, migrations)


@contextmanager
def _locked(connection: psycopg.Connection[tuple[object, ...]]) -> Iterator[None]:
    """Holds the advisory lock in a transaction, since a session lock doesn't work behind a transaction pooler.

    Polls for the lock, since a waiting statement would block concurrent index builds.
    """
    until = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        with connection.transaction():
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            if connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (_ADVISORY_LOCK,)).fetchone() == (True,):
                yield
                return
        if time.monotonic() >= until:
            raise psycopg.errors.LockNotAvailable("another process is migrating the database")
        time.sleep(_CHECK_SECONDS)


def _upgrade_patiently(url: str, migrations: Path) -> None:
    """Upgrades the database, and tries again if a revision doesn't get a lock."""
    from sqlalchemy.exc import OperationalError

    until = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            return _upgrade(url, migrations)
        except OperationalError as problem:
            if not isinstance(problem.orig, psycopg.errors.LockNotAvailable):
                raise
            if time.monotonic() >= until:
                raise problem.orig from problem
        time.sleep(_PAUSE_SECONDS)


def is_migrated(url: str, migrations: Path) -> bool:
    """Returns whether the database has the newest revision in ``migrations/versions``, or a newer one.

    Blocks the calling thread. Raises IncompatibleSchema.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        return _is_current(connection, migrations)


def _is_current(connection: psycopg.Connection[tuple[object, ...]], migrations: Path) -> bool:
    if connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
        return False
    # Older databases lack the column.
    row = connection.execute("SELECT version_num, to_jsonb(v) ->> 'origin' FROM alembic_version v").fetchone()
    if row is not None and row[1] != _origin(migrations):
        raise IncompatibleSchema
    return row is not None and str(row[0]) >= newest_revision(migrations)


def newest_revision(migrations: Path) -> str:
    return max(file.stem.split("_", 1)[0] for file in (migrations / "versions").glob("[0-9]*.py"))


def _origin(migrations: Path) -> str:
    """Returns a digest of the SQL in the first revision and in the library schemas that it imports."""
    first = min((migrations / "versions").glob("[0-9]*.py"))
    with _PARSING_LOCK, _collector_paused():
        return hashlib.sha256("\n".join(_texts(first)).encode()).hexdigest()


@contextmanager
def _collector_paused() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _texts(file: Path) -> Iterator[str]:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield " ".join(node.value.split())
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.endswith(".schema"):
            yield from _texts(_ROOT / f"{node.module.replace('.', '/')}.py")


def _upgrade(url: str, migrations: Path) -> None:
    from alembic import command

    command.upgrade(configuration_of(url, migrations), "head")


def configuration_of(url: str, migrations: Path) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_ENVIRONMENT))
    config.set_main_option("version_locations", str(migrations / "versions"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(url=url, origin=_origin(migrations))
    return config
