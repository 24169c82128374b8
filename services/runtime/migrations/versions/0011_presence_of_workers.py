"""Workers announce the number of the lock that their process holds while it lives."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.execute("ALTER TABLE workers ADD COLUMN presence integer")
