"""Workers that deliver webhooks announce the number of the lock that their process holds while it lives."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute("ALTER TABLE webhook_workers ADD COLUMN presence integer")
