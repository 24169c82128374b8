"""Tombstones of artifacts and sessions are found by their age, and all artifacts of a session."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    build_index(op, "ix_artifacts_bytes_gone_at", "artifacts (bytes_gone_at) WHERE state = 'deleted'")
    build_index(op, "ix_sessions_deleted_at", "sessions (deleted_at) WHERE deleted_at IS NOT NULL")
    build_index(op, "ix_artifacts_of_session", "artifacts (session_id)")
