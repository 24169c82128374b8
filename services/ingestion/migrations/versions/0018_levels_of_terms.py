"""Indexes tell whether their chunks are found by how much a term weighs in them; older ones get that when rebuilt."""

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.execute("ALTER TABLE search.indexes ADD COLUMN has_levels boolean NOT NULL DEFAULT false")
