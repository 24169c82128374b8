"""Sessions, turns, messages, steps and the workers' leases."""

from alembic import op

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None

_TABLES = (
    """
    CREATE TABLE sessions (
        id text NOT NULL CONSTRAINT pk_sessions PRIMARY KEY,
        company_id text NOT NULL,
        owner_id text NOT NULL,
        agent_id text,
        config json NOT NULL,
        config_hash text NOT NULL,
        status text NOT NULL DEFAULT 'active'
            CONSTRAINT ck_sessions_status CHECK (status IN ('active', 'deleting')),
        next_position integer NOT NULL DEFAULT 0,
        deletion json,
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "CREATE INDEX ix_sessions_company_id_created_at ON sessions (company_id, created_at, id)",
    "CREATE INDEX ix_sessions_company_id_owner_id_created_at ON sessions (company_id, owner_id, created_at, id)",
    "CREATE INDEX ix_sessions_deleting ON sessions (id) WHERE status = 'deleting'",
    """
    CREATE TABLE session_tombstones (
        id text NOT NULL CONSTRAINT pk_session_tombstones PRIMARY KEY,
        company_id text NOT NULL,
        deleted_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE turns (
        id text NOT NULL CONSTRAINT pk_turns PRIMARY KEY,
        session_id text NOT NULL CONSTRAINT fk_turns_session_id_sessions REFERENCES sessions,
        company_id text NOT NULL,
        position integer NOT NULL,
        status text NOT NULL
            CONSTRAINT ck_turns_status CHECK (status IN ('queued', 'running', 'completed', 'failed', 'cancelled')),
        attempt integer NOT NULL,
        lost_attempts integer NOT NULL DEFAULT 0,
        fence integer NOT NULL,
        worker_id text,
        deadline timestamptz,
        identity json NOT NULL,
        correlation_id text NOT NULL,
        traceparent text,
        stream boolean NOT NULL,
        event_sequence integer NOT NULL,
        user_message_id text NOT NULL,
        message_id text,
        reply json,
        usage json,
        error json,
        created_at timestamptz NOT NULL DEFAULT now(),
        started_at timestamptz,
        finished_at timestamptz,
        CONSTRAINT uq_turns_session_id_position UNIQUE (session_id, position),
        CONSTRAINT ck_turns_queued_unheld CHECK (status <> 'queued' OR worker_id IS NULL)
    )
    """,
    "CREATE UNIQUE INDEX uq_turns_running ON turns (session_id) WHERE status = 'running'",
    # A cancelled turn keeps its worker until the execution has really stopped: two never overlap in a session.
    "CREATE UNIQUE INDEX uq_turns_held ON turns (session_id) WHERE worker_id IS NOT NULL",
    """
    CREATE INDEX ix_turns_live ON turns (session_id, position)
        WHERE status IN ('queued', 'running') OR worker_id IS NOT NULL
    """,
    """
    CREATE TABLE messages (
        session_id text NOT NULL CONSTRAINT fk_messages_session_id_sessions REFERENCES sessions,
        position integer NOT NULL,
        id text NOT NULL,
        turn_id text NOT NULL,
        role text NOT NULL CONSTRAINT ck_messages_role CHECK (role IN ('user', 'assistant')),
        content text NOT NULL,
        blocks json,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_messages PRIMARY KEY (session_id, position)
    )
    """,
    """
    CREATE TABLE steps (
        turn_id text NOT NULL CONSTRAINT fk_steps_turn_id_turns REFERENCES turns,
        number integer NOT NULL,
        call_id text NOT NULL DEFAULT '',
        kind text NOT NULL,
        payload json NOT NULL,
        model text,
        request_hash text,
        usage json,
        price json,
        seconds double precision,
        status text,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_steps PRIMARY KEY (turn_id, number, call_id)
    )
    """,
    """
    CREATE TABLE workers (
        id text NOT NULL CONSTRAINT pk_workers PRIMARY KEY,
        lease_expires_at timestamptz NOT NULL,
        started_at timestamptz NOT NULL DEFAULT now()
    )
    """,
)


def upgrade() -> None:
    create_eventing_tables(op)
    for statement in _TABLES:
        op.execute(statement)
