"""Unfinished items are found one by one too: whichever index a plan takes for that, it leads to one row."""

from alembic import op

from libs.persistence.index_builds import replace_index

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    replace_index(
        op,
        "ix_ingestion_items_unfinished",
        "ingestion_items (index_id, file_id) WHERE state IN ('pending', 'running', 'removing')",
    )
