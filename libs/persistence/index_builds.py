"""Builds indexes of tables in use without stopping writers; for migrations."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from alembic.operations import Operations
from sqlalchemy import text

# Waits for transactions that began before it, in the way of nobody; a dump of the database takes long.
_LOCK_TIMEOUT: Final = "SET lock_timeout = '15min'"
_BRIEF: Final = "SET lock_timeout = '2s'"
_IS_VALID: Final = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)")


def build_index(op: Operations | ModuleType, name: str, definition: str, *, unique: bool = False) -> None:
    """Builds the index ``name`` with that definition, such as ``turns (company_id) WHERE …``, if it is missing.

    What the revision did before is committed first, and the revision runs again when the build is interrupted: each of
    its statements must allow that. An index that an interrupted build left behind, which is invalid, is built anew.
    """
    with _outside_of_transaction(op):
        _build(op, name, definition, unique=unique)


def replace_index(op: Operations | ModuleType, name: str, definition: str) -> None:
    """Puts an index of another definition in the place of ``name``; one of both serves queries all the time."""
    successor = f"{name}_successor"
    with _outside_of_transaction(op):
        _build(op, successor, definition, unique=False)
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        op.execute(f"ALTER INDEX {successor} RENAME TO {name}")


@contextmanager
def _outside_of_transaction(op: Operations | ModuleType) -> Iterator[None]:
    with op.get_context().autocommit_block():
        op.execute(_LOCK_TIMEOUT)
        try:
            yield
        finally:
            op.execute(_BRIEF)


def _build(op: Operations | ModuleType, name: str, definition: str, *, unique: bool) -> None:
    valid = op.get_bind().execute(_IS_VALID, {"name": name}).scalar()
    if valid:
        return
    if valid is not None:
        op.execute(f"DROP INDEX CONCURRENTLY {name}")
    op.execute(f"CREATE {'UNIQUE ' if unique else ''}INDEX CONCURRENTLY {name} ON {definition}")
