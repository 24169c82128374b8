"""Sessions counted by company."""

from alembic import op

from libs.quotas.schema import count_rows

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    count_rows(op, "sessions", {"sessions": "1"})
