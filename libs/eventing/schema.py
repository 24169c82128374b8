"""The tables that every owner keeps beside its own: outbox, inbox, event sequences."""

from types import ModuleType

import sqlalchemy as sa
from alembic.operations import Operations
from sqlalchemy.dialects.postgresql import TIMESTAMP


def create_eventing_tables(op: Operations | ModuleType) -> None:
    """Create the tables. Called by the first migration of a service."""
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("company_id", sa.Text, nullable=False),
        sa.Column("correlation_id", sa.Text, nullable=False),
        sa.Column("causation_id", sa.Text),
        sa.Column("traceparent", sa.Text),
        sa.Column("terminal", sa.Boolean, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("writer", sa.Text, nullable=False),
        sa.Column("created_at", TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("published_at", TIMESTAMP(timezone=True)),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("parked_at", TIMESTAMP(timezone=True)),
        sa.Column("last_error", sa.Text),
        sa.UniqueConstraint("subject", "sequence"),
    )
    op.create_index(
        "ix_outbox_unpublished",
        "outbox",
        ["id"],
        postgresql_where=sa.text("published_at IS NULL AND parked_at IS NULL"),
    )
    # Exactly one outcome per command: a second one aborts the transaction that writes it.
    op.create_index("uq_outbox_outcome", "outbox", ["causation_id"], unique=True, postgresql_where=sa.text("terminal"))
    op.create_index("ix_outbox_event_id", "outbox", ["event_id"])
    op.create_table(
        "inbox",
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("received_at", TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("company_id", sa.Text),
        sa.PrimaryKeyConstraint("consumer", "message_id"),
    )
    op.create_index("ix_inbox_received_at", "inbox", ["received_at"])
    op.create_table(
        "event_sequences",
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
    )


def add_inbox_company(op: Operations | ModuleType) -> None:
    """Bring tables made before the inbox knew companies up to date; to newer ones it does nothing.

    Old rows stay without a company until they are forgotten: whose they were is not known any more.
    """
    op.execute("ALTER TABLE inbox ADD COLUMN IF NOT EXISTS company_id text")
