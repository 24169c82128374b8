"""Bytes of artifacts counted by company."""

from alembic import op

from libs.quotas.schema import count_rows

revision = "0006"
down_revision = "0005"
_COMPANY = "(SELECT s.company_id FROM sessions s WHERE s.id = {row}.session_id)"


def upgrade() -> None:
    count_rows(op, "artifacts", {"artifact_bytes": "{row}.size"}, counted="{row}.state = 'stored'", company=_COMPANY)
