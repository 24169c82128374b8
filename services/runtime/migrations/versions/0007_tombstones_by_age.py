"""Tombstones of sessions are found by their age."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    build_index(op, "ix_session_tombstones_deleted_at", "session_tombstones (deleted_at)")
