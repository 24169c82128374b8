"""Listed sessions are found by their agent."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    build_index(op, "ix_sessions_agent_id", "sessions (agent_id, owner_id) WHERE listed AND agent_id IS NOT NULL")
