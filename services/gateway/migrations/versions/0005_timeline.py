"""The timeline: a numbered log of every company's events, partitioned by the day of storing."""

from alembic import op

from libs.eventing.schema import add_outbox_owner

revision = "0005"
down_revision = "0004"

_TABLES = (
    """
    CREATE TABLE timeline_counters (
        company_id text NOT NULL CONSTRAINT pk_timeline_counters PRIMARY KEY,
        position bigint NOT NULL
    )
    """,
    """
    CREATE TABLE timeline_offsets (
        topic text NOT NULL,
        partition integer NOT NULL,
        next_offset bigint NOT NULL,
        CONSTRAINT pk_timeline_offsets PRIMARY KEY (topic, partition)
    )
    """,
    """
    CREATE TABLE timeline_events (
        day date NOT NULL,
        company_id text NOT NULL,
        position bigint NOT NULL,
        id text NOT NULL,
        type text NOT NULL,
        version smallint NOT NULL DEFAULT 1,
        source text NOT NULL,
        subject text NOT NULL,
        sequence bigint NOT NULL,
        "time" text NOT NULL,
        correlation_id text NOT NULL,
        causation_id text,
        session_id text,
        turn_id text,
        owner_id text,
        data bytea NOT NULL,
        CONSTRAINT pk_timeline_events PRIMARY KEY (company_id, position, day)
    ) PARTITION BY RANGE (day)
    """,
    """
    CREATE INDEX ix_timeline_events_company_id_correlation_id_position
        ON timeline_events (company_id, correlation_id, position)
    """,
    """
    CREATE INDEX ix_timeline_events_company_id_session_id_position
        ON timeline_events (company_id, session_id, position) WHERE session_id IS NOT NULL
    """,
    """
    CREATE INDEX ix_timeline_events_company_id_turn_id_position
        ON timeline_events (company_id, turn_id, position) WHERE turn_id IS NOT NULL
    """,
    # Also finds an event that comes a second time: it has the same subject and sequence.
    """
    CREATE INDEX ix_timeline_events_company_id_subject_sequence
        ON timeline_events (company_id, subject, sequence)
    """,
    # Later days are added by the processes of role `timeline`.
    """
    DO $$
    DECLARE
        day date := (now() AT TIME ZONE 'UTC')::date - 1;
    BEGIN
        FOR number IN 1..5 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF timeline_events FOR VALUES FROM (%L) TO (%L)',
                           'timeline_events_' || to_char(day, 'YYYYMMDD'), day, day + 1);
            day := day + 1;
        END LOOP;
    END $$
    """,
)


def upgrade() -> None:
    for statement in _TABLES:
        op.execute(statement)
    add_outbox_owner(op)
