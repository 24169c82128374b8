"""Tombstones of agents are found by their age."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    build_index(op, "ix_agents_deleted_at", "agents (deleted_at) WHERE deleted_at IS NOT NULL")
