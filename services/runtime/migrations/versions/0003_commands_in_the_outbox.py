"""The outbox carries commands to other services: their rows have the identity of the caller."""

from alembic import op

from libs.eventing.schema import add_outbox_identity

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    add_outbox_identity(op)
