"""Unfinished items are found one by one too: whichever index a plan takes for that, it leads to one row."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.execute("DROP INDEX ix_ingestion_items_unfinished")
    op.execute(
        """
        CREATE INDEX ix_ingestion_items_unfinished ON ingestion_items (index_id, file_id)
        WHERE state IN ('pending', 'running', 'removing')
        """
    )
