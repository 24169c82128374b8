"""Documents of sessions and unparsed texts are claimed by company.

Texts that are unparsed already count as those of one company more: a change of all rows would keep writers waiting.
"""

from alembic import op

from libs.persistence.index_builds import build_index, replace_index

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.execute("ALTER TABLE texts ADD COLUMN IF NOT EXISTS company_id text NOT NULL DEFAULT ''")
    build_index(op, "ix_texts_unparsed", "texts (company_id, blob_id) WHERE state IN ('pending', 'running')")
    replace_index(
        op,
        "ix_artifact_documents_pending",
        "artifact_documents (company_id, (lost_at IS NOT NULL), created_at) WHERE state = 'pending'",
    )
