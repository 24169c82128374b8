"""Keys that were revoked or expired are found by their age, and the keys that one is the successor of."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    build_index(op, "ix_api_keys_ended", "api_keys (least(revoked_at, expires_at))")
    build_index(op, "ix_api_keys_successor_id", "api_keys (successor_id) WHERE successor_id IS NOT NULL")
