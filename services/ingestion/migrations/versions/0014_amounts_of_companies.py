"""Files and their bytes counted by company."""

from alembic import op

from libs.quotas.schema import count_rows

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    count_rows(op, "files", {"files": "1", "file_bytes": "{row}.size"}, counted="{row}.deleted_at IS NULL")
