"""The inbox knows whose message it was: another company may not even learn that a command is under way."""

from alembic import op

from libs.eventing.schema import add_inbox_company

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    add_inbox_company(op)
