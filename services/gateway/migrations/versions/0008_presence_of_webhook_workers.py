"""Workers that deliver webhooks announce the number of the lock that their process holds while it lives."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.execute("ALTER TABLE webhook_workers ADD COLUMN presence integer")
