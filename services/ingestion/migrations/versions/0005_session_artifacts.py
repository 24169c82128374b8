"""Documents of sessions: indexed for the service that keeps artifacts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TIMESTAMP

revision = "0005"
down_revision = "0004"

TIME = TIMESTAMP(timezone=True)
NOW = sa.text("now()")


def upgrade() -> None:
    op.create_table(
        "artifact_documents",
        sa.Column("artifact_id", sa.Text, primary_key=True),
        sa.Column("company_id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("content_type", sa.Text, nullable=False),
        sa.Column("correlation_id", sa.Text, nullable=False),
        # Deleted ones stay as tombstones: what is told late of them changes nothing.
        sa.Column("state", sa.Text, nullable=False, server_default="pending"),
        sa.Column("token", sa.Text),
        sa.Column("lease_until", TIME),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        # Where its passages are, or may be.
        sa.Column("engine", sa.Text),
        sa.Column("index_id", sa.Text),
        sa.Column("created_at", TIME, nullable=False, server_default=NOW),
        sa.Column("changed_at", TIME, nullable=False, server_default=NOW),
        sa.CheckConstraint("state IN ('pending', 'indexed', 'failed', 'deleted')", "state"),
    )
    op.create_index(
        "ix_artifact_documents_pending",
        "artifact_documents",
        ["created_at"],
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_artifact_documents_leaving",
        "artifact_documents",
        ["changed_at"],
        postgresql_where=sa.text("state = 'deleted' AND index_id IS NOT NULL"),
    )
