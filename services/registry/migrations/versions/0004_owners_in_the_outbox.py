"""The outbox keeps the owner of what an event is about: the event carries it to those who decide who may see it."""

from alembic import op

from libs.eventing.schema import add_outbox_owner

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    add_outbox_owner(op)
