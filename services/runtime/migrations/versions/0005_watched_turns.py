"""Turns count how often readers asked for their text, so that the worker that runs one sends it."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.execute("ALTER TABLE turns ADD COLUMN watches integer NOT NULL DEFAULT 0")
