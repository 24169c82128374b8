"""The outbox keeps the owner of an event's subject; readers of the event filter by it."""

from alembic import op

from libs.eventing.schema import add_outbox_owner

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    add_outbox_owner(op)
