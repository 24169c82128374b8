"""Tables that every service's database has: the outbox, the inbox, event sequences and task leases."""

from types import ModuleType

from alembic.operations import Operations

_OUTBOX = """
    CREATE TABLE outbox (
        id bigint GENERATED ALWAYS AS IDENTITY,
        event_id text NOT NULL,
        type text NOT NULL,
        topic text NOT NULL,
        subject text NOT NULL,
        sequence bigint NOT NULL,
        company_id text NOT NULL,
        correlation_id text NOT NULL,
        causation_id text,
        traceparent text,
        terminal boolean NOT NULL,
        payload bytea NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        published_at timestamptz,
        attempts integer NOT NULL DEFAULT 0,
        parked_at timestamptz,
        last_error text,
        identity jsonb,
        owner_id text,
        cause text,
        CONSTRAINT pk_outbox PRIMARY KEY (id),
        CONSTRAINT uq_outbox_subject_sequence UNIQUE (subject, sequence)
    )
"""
_UNPUBLISHED = "CREATE INDEX ix_outbox_unpublished ON outbox (id) WHERE published_at IS NULL AND parked_at IS NULL"
# This index enforces one outcome per command. A second outcome aborts its transaction.
_OUTCOME = "CREATE UNIQUE INDEX uq_outbox_outcome ON outbox (causation_id) WHERE terminal"
# Events that report an internal error have a cause.
_FAILURES = "CREATE INDEX ix_outbox_failures ON outbox (id) WHERE cause IS NOT NULL"
_INBOX = """
    CREATE TABLE inbox (
        consumer text NOT NULL,
        message_id text NOT NULL,
        company_id text NOT NULL,
        received_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_inbox PRIMARY KEY (consumer, message_id)
    )
"""
_SEQUENCES = """
    CREATE TABLE event_sequences (
        subject text NOT NULL,
        last bigint NOT NULL,
        CONSTRAINT pk_event_sequences PRIMARY KEY (subject)
    )
"""
# Tasks that only one process runs at a time.
_LEASES = """
    CREATE TABLE task_leases (
        task text NOT NULL,
        holder text NOT NULL,
        ends_at timestamptz NOT NULL,
        CONSTRAINT pk_task_leases PRIMARY KEY (task)
    )
"""


def create_eventing_tables(op: Operations | ModuleType) -> None:
    """Creates the tables. A service's first migration calls this function."""
    for statement in (
        _OUTBOX,
        _UNPUBLISHED,
        _OUTCOME,
        _FAILURES,
        "CREATE INDEX ix_outbox_event_id ON outbox (event_id)",
        _INBOX,
        "CREATE INDEX ix_inbox_received_at ON inbox (received_at)",
        _SEQUENCES,
        _LEASES,
    ):
        op.execute(statement)
