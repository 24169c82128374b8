"""Items that are on their way to a worker are counted without a look at all that wait."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    build_index(
        op,
        "ix_ingestion_items_sent",
        "ingestion_items (index_id) WHERE sent_at IS NOT NULL AND state IN ('pending', 'removing')",
    )
