"""Sessions that are not listed, and sessions that expire; turns that end with calls of client tools."""

from alembic import op

from libs.persistence.index_builds import build_index, replace_index

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.execute("ALTER TABLE sessions ADD COLUMN IF NOT EXISTS listed boolean NOT NULL DEFAULT true")
    op.execute("ALTER TABLE sessions ADD COLUMN IF NOT EXISTS expires_at timestamptz")
    op.execute("ALTER TABLE turns ADD COLUMN IF NOT EXISTS client_calls json")
    build_index(op, "ix_sessions_expires_at", "sessions (expires_at) WHERE expires_at IS NOT NULL")
    # One call of chat completions is a session: lists of others must not read past them.
    for name, columns in (
        ("ix_sessions_company_id_created_at", "company_id, created_at, id"),
        ("ix_sessions_company_id_owner_id_created_at", "company_id, owner_id, created_at, id"),
    ):
        replace_index(op, name, f"sessions ({columns}) WHERE listed")
