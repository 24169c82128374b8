"""Runs count their attempts, so that one that cannot go on ends with the reason."""

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.execute("ALTER TABLE ingestion_runs ADD attempts integer NOT NULL DEFAULT 0, ADD failure text")
