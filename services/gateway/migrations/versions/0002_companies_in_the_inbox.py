"""The company of each message in the inbox: other companies cannot look up its commands."""

from alembic import op

from libs.eventing.schema import add_inbox_company

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    add_inbox_company(op)
