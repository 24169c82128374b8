"""The outbox keeps the owner of what an event is about; so do documents of sessions, whose events are made later."""

from alembic import op

from libs.eventing.schema import add_outbox_owner

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    add_outbox_owner(op)
    op.execute("ALTER TABLE artifact_documents ADD COLUMN owner_id text")
