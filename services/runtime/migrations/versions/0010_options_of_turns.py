"""Turns keep the options that they were begun with."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.execute("ALTER TABLE turns ADD COLUMN options json")
