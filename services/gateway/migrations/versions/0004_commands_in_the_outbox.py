"""The outbox carries commands to other services: their rows have the identity of the caller."""

from alembic import op

from libs.eventing.schema import add_outbox_identity

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    add_outbox_identity(op)
