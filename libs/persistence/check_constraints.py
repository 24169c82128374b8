"""Widens check constraints of tables in use; for migrations."""

from types import ModuleType

from alembic.operations import Operations


def widen_check(op: Operations | ModuleType, table: str, name: str, condition: str) -> None:
    """Puts a wider condition in the place of the constraint ``name``. It may run again.

    Everything that the release before writes has to satisfy it. Only a brief lock is taken, as existing rows satisfied
    the narrower condition: ``validate_check`` marks them as checked, in a later transaction.
    """
    op.execute(
        f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}, ADD CONSTRAINT {name} CHECK ({condition}) NOT VALID"
    )


def validate_check(op: Operations | ModuleType, table: str, name: str) -> None:
    """Reads the table while others write to it."""
    op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")
