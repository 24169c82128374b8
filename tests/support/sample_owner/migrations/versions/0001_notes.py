"""The notes of the sample owner."""

import sqlalchemy as sa
from alembic import op

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_eventing_tables(op)
    op.create_table("notes", sa.Column("id", sa.Text, primary_key=True), sa.Column("text", sa.Text, nullable=False))
