"""Artifacts of sessions, the sessions as far as they are known here, and copies to the platform."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None

TIME = TIMESTAMP(timezone=True)
NOW = sa.text("now()")


def upgrade() -> None:
    create_eventing_tables(op)
    _create_sessions()
    _create_artifacts()
    _create_requests()


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("company_id", sa.Text, nullable=False),
        sa.Column("owner_id", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False, server_default=NOW),
        # Deleted sessions stay as tombstones, so that late uploads find no place.
        sa.Column("deleted_at", TIME),
    )


def _create_artifacts() -> None:
    op.create_table(
        "artifacts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default="uploading"),
        sa.Column("state_since", TIME, nullable=False, server_default=NOW),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("content_type", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("strategy", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("correlation_id", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger),
        sa.Column("sha256", sa.Text),
        sa.Column("status", sa.Text, nullable=False, server_default="pending"),
        sa.Column("progress", sa.Integer, nullable=False, server_default="0"),
        sa.Column("error", JSONB),
        sa.Column("metadata", JSONB, nullable=False, server_default="{}"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("lease", sa.Text),
        sa.Column("lease_until", TIME),
        # When the bytes of a deleted artifact were removed, and when nobody could write any more after that.
        sa.Column("emptied_at", TIME),
        sa.Column("bytes_gone_at", TIME),
        sa.Column("platform_state", sa.Text, nullable=False, server_default="none"),
        sa.Column("platform_file_id", sa.Text),
        # The command that is on its way to the platform's files: it is sent until it is answered.
        sa.Column("platform_command_id", sa.Text),
        sa.Column("platform_identity", JSONB),
        sa.Column("platform_correlation_id", sa.Text),
        sa.Column("platform_sent_at", TIME),
        sa.Column("created_at", TIME, nullable=False, server_default=NOW),
        sa.Column("updated_at", TIME, nullable=False, server_default=NOW),
        sa.CheckConstraint("state IN ('uploading', 'stored', 'abandoned', 'deleted')", "state"),
        sa.CheckConstraint("state <> 'stored' OR (sha256 IS NOT NULL AND size IS NOT NULL)", "stored"),
        sa.CheckConstraint("status IN ('pending', 'ready', 'failed')", "status"),
        sa.CheckConstraint("origin IN ('uploaded', 'generated')", "origin"),
        sa.CheckConstraint("platform_state IN ('none', 'copying', 'copied', 'removing')", "platform_state"),
    )
    stored = sa.text("state = 'stored'")
    op.create_index("ix_artifacts_session_id", "artifacts", ["session_id", "created_at", "id"], postgresql_where=stored)
    pending = sa.text("state = 'stored' AND status = 'pending'")
    op.create_index("ix_artifacts_pending", "artifacts", ["strategy", "created_at"], postgresql_where=pending)
    leaving = sa.text("state <> 'stored' AND bytes_gone_at IS NULL")
    op.create_index("ix_artifacts_leaving", "artifacts", ["state_since"], postgresql_where=leaving)
    moving = sa.text("platform_state IN ('copying', 'removing')")
    op.create_index("ix_artifacts_moving", "artifacts", ["platform_sent_at"], postgresql_where=moving)
    for column in ("platform_file_id", "platform_command_id"):
        op.create_index(
            f"ix_artifacts_{column}", "artifacts", [column], postgresql_where=sa.text(f"{column} IS NOT NULL")
        )


def _create_requests() -> None:
    op.create_table(
        "upload_keys",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("content_hash", sa.Text, nullable=False),
        sa.Column("artifact_id", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False, server_default=NOW),
    )
    # Commands that end when the copy is made or removed.
    op.create_table(
        "platform_requests",
        sa.Column("command_id", sa.Text, primary_key=True),
        sa.Column("artifact_id", sa.Text, sa.ForeignKey("artifacts.id", ondelete="CASCADE"), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("company_id", sa.Text, nullable=False),
        sa.Column("correlation_id", sa.Text, nullable=False),
        sa.Column("traceparent", sa.Text),
        sa.CheckConstraint("state IN ('copying', 'removing')", "state"),
    )
    op.create_index("ix_platform_requests_artifact_id", "platform_requests", ["artifact_id"])
