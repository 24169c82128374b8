"""The outbox keeps the owner of an event's subject; readers of the event filter by it."""

from alembic import op

from libs.eventing.schema import add_outbox_owner

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    add_outbox_owner(op)
