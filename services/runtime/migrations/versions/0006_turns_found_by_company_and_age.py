"""Live turns are counted by company, and queued ones found in the order of their waiting."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    live = "status IN ('queued', 'running') OR worker_id IS NOT NULL"
    build_index(op, "ix_turns_live_company_id", f"turns (company_id) WHERE {live}")
    build_index(op, "ix_turns_queued", "turns (created_at) WHERE status = 'queued'")
