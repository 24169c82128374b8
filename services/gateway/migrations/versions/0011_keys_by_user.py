"""Keys and connections found by user, newest first."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    build_index(op, "ix_api_keys_user_id", "api_keys (company_id, user_id, created_at, id)")
    build_index(op, "ix_connections_user_id", "connections (company_id, user_id, created_at, id)")
