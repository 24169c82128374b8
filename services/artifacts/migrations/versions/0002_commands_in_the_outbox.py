"""The outbox carries commands to other services: their rows have the identity of the caller."""

from alembic import op

from libs.eventing.schema import add_outbox_identity

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    add_outbox_identity(op)
