"""Creates sessions, turns, messages, steps, waits, workers, prices, budgets and retention."""

from alembic import op

from libs.eventing.schema import create_eventing_tables
from libs.quotas.schema import count_rows

revision = "0001"
down_revision = None

SESSIONS = (
    # lineage: the sessions that a fork's history comes from, nearest first. listed: false for the sessions of single
    # chat completions, which lists omit.
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
        created_at timestamptz NOT NULL DEFAULT now(),
        lineage text[],
        listed boolean NOT NULL DEFAULT true,
        expires_at timestamptz,
        metadata json
    )
    """,
    "CREATE INDEX ix_sessions_company_id_created_at ON sessions (company_id, created_at, id) WHERE listed",
    """
    CREATE INDEX ix_sessions_company_id_owner_id_created_at ON sessions (company_id, owner_id, created_at, id)
        WHERE listed
    """,
    "CREATE INDEX ix_sessions_agent_id ON sessions (agent_id, owner_id) WHERE listed AND agent_id IS NOT NULL",
    "CREATE INDEX ix_sessions_deleting ON sessions (id) WHERE status = 'deleting'",
    "CREATE INDEX ix_sessions_expires_at ON sessions (expires_at) WHERE expires_at IS NOT NULL",
    """
    CREATE TABLE session_tombstones (
        id text NOT NULL CONSTRAINT pk_session_tombstones PRIMARY KEY,
        company_id text NOT NULL,
        deleted_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "CREATE INDEX ix_session_tombstones_deleted_at ON session_tombstones (deleted_at)",
)
LIVE = "status IN ('queued', 'running') OR worker_id IS NOT NULL"
TURNS = (
    # watches: readers' requests for the text, which make the worker send it. worked: seconds of execution before the
    # last wait. claimed_at: the start of the execution after it.
    """
    CREATE TABLE turns (
        id text NOT NULL CONSTRAINT pk_turns PRIMARY KEY,
        session_id text NOT NULL CONSTRAINT fk_turns_session_id_sessions REFERENCES sessions,
        company_id text NOT NULL,
        position integer NOT NULL,
        status text NOT NULL CONSTRAINT ck_turns_status
            CHECK (status IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
        attempt integer NOT NULL,
        lost_attempts integer NOT NULL DEFAULT 0,
        fence integer NOT NULL,
        worker_id text,
        deadline timestamptz,
        identity json NOT NULL,
        correlation_id text NOT NULL,
        traceparent text,
        request json NOT NULL,
        event_sequence integer NOT NULL,
        user_message_id text NOT NULL,
        message_id text,
        reply json,
        usage json,
        error json,
        created_at timestamptz NOT NULL DEFAULT now(),
        started_at timestamptz,
        finished_at timestamptz,
        watches integer NOT NULL DEFAULT 0,
        worked double precision NOT NULL DEFAULT 0,
        claimed_at timestamptz,
        CONSTRAINT uq_turns_session_id_position UNIQUE (session_id, position),
        CONSTRAINT ck_turns_queued_unheld CHECK (status <> 'queued' OR worker_id IS NULL)
    )
    """,
    "CREATE UNIQUE INDEX uq_turns_running ON turns (session_id) WHERE status = 'running'",
    # A cancelled turn keeps its worker until its execution has stopped, so that executions never overlap in a session.
    "CREATE UNIQUE INDEX uq_turns_held ON turns (session_id) WHERE worker_id IS NOT NULL",
    # Separate from the indexes of live turns, so that admission, claims and takeovers never read waiting turns.
    "CREATE UNIQUE INDEX uq_turns_waiting ON turns (session_id) WHERE status = 'waiting'",
    f"CREATE INDEX ix_turns_live ON turns (session_id, position) WHERE {LIVE}",
    f"CREATE INDEX ix_turns_live_company_id ON turns (company_id) WHERE {LIVE}",
    "CREATE INDEX ix_turns_queued ON turns (created_at) WHERE status = 'queued'",
)
MESSAGES = (
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
)
STEPS = (
    # kind: see domain/steps.py. request_hash, price and seconds are reserved for lists of steps and aren't written yet.
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
)
WAITS = (
    # A wait is open until it's resolved or its turn ends. kind: see domain/waits. call_id: null for a wait that isn't
    # about one call. due_at: when the service resolves it.
    """
    CREATE TABLE waits (
        id text NOT NULL CONSTRAINT pk_waits PRIMARY KEY,
        turn_id text NOT NULL CONSTRAINT fk_waits_turn_id_turns REFERENCES turns,
        session_id text NOT NULL,
        company_id text NOT NULL,
        owner_id text NOT NULL,
        kind text NOT NULL,
        step integer NOT NULL,
        call_id text,
        payload json NOT NULL,
        state text NOT NULL DEFAULT 'open'
            CONSTRAINT ck_waits_state CHECK (state IN ('open', 'resolved', 'closed')),
        decision text,
        answer_hash text,
        resolved_by text,
        created_at timestamptz NOT NULL DEFAULT now(),
        due_at timestamptz,
        expires_at timestamptz NOT NULL,
        resolved_at timestamptz,
        CONSTRAINT uq_waits_turn_id_call_id UNIQUE (turn_id, call_id)
    )
    """,
    "CREATE INDEX ix_waits_session_id ON waits (session_id, created_at, id) WHERE state = 'open'",
    "CREATE INDEX ix_waits_company_id ON waits (company_id, created_at, id) WHERE state = 'open'",
    "CREATE INDEX ix_waits_owner_id ON waits (company_id, owner_id, created_at, id) WHERE state = 'open'",
    "CREATE INDEX ix_waits_expires_at ON waits (expires_at) WHERE state = 'open'",
    "CREATE INDEX ix_waits_due_at ON waits (due_at) WHERE state = 'open' AND due_at IS NOT NULL",
)
WORKERS = (
    # presence: the number of the process's liveness lock.
    """
    CREATE TABLE workers (
        id text NOT NULL CONSTRAINT pk_workers PRIMARY KEY,
        lease_expires_at timestamptz NOT NULL,
        started_at timestamptz NOT NULL DEFAULT now(),
        presence integer
    )
    """,
)
PRICES = (
    """
    CREATE TABLE model_prices (
        model text NOT NULL CONSTRAINT pk_model_prices PRIMARY KEY,
        input_price numeric(20, 8) NOT NULL CONSTRAINT ck_model_prices_input_price CHECK (input_price >= 0),
        output_price numeric(20, 8) NOT NULL CONSTRAINT ck_model_prices_output_price CHECK (output_price >= 0),
        updated_at timestamptz NOT NULL DEFAULT now()
    )
    """,
)
# Budgets of companies, users and keys.
BUDGETS = (
    """
    CREATE TABLE budgets (
        id text NOT NULL CONSTRAINT pk_budgets PRIMARY KEY,
        company_id text NOT NULL,
        owner_id text NOT NULL,
        description text NOT NULL,
        user_id text,
        key_id text,
        period text NOT NULL CONSTRAINT ck_budgets_period CHECK (period IN ('day', 'month', 'total')),
        cost numeric,
        tokens bigint,
        warning_percent integer,
        started_at timestamptz NOT NULL,
        used_cost numeric NOT NULL,
        used_tokens bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_budgets_limit CHECK (num_nonnulls(cost, tokens) = 1)
    )
    """,
    "CREATE INDEX ix_budgets_company_id ON budgets (company_id, created_at, id)",
)
RETENTION = (
    """
    CREATE TABLE retention (
        company_id text NOT NULL CONSTRAINT pk_retention PRIMARY KEY,
        session_retention_days integer CONSTRAINT ck_retention_days CHECK (session_retention_days > 0),
        updated_at timestamptz NOT NULL DEFAULT now()
    )
    """,
)


def upgrade() -> None:
    create_eventing_tables(op)
    for noun in (SESSIONS, TURNS, MESSAGES, STEPS, WAITS, WORKERS, PRICES, BUDGETS, RETENTION):
        for statement in noun:
            op.execute(statement)
    count_rows(op, "sessions", {"sessions": "1"})


# For docs/operate/data.md.
TABLES = {
    "sessions": {
        "row": "each session",
        "bytes": "2,210 with a configuration of 1.2 kB",
        "removed": "when deleted, or unused for the retention period",
    },
    "turns": {
        "row": "each turn",
        "bytes": "1,400 with a plain reply; more with tool calls and citations",
        "removed": "with its session",
    },
    "messages": {
        "row": "each user message and each reply",
        "bytes": "520 with a message of 256 bytes",
        "removed": "with its session",
    },
    "steps": {
        "row": "each tool-calling model response and each tool result",
        "bytes": "610 with 400 bytes of content",
        "removed": "with its session",
    },
    "waits": {
        "row": "each wait of a turn, such as an approval",
        "bytes": "1,100 with arguments of 100 bytes",
        "removed": "with its session",
    },
    "budgets": {"row": "each budget, up to 100 per company", "bytes": "460", "removed": "when deleted"},
    "model_prices": {"row": "each model with a custom price", "bytes": "130", "removed": "when an operator removes it"},
    "retention": {"row": "each company with its own retention period", "bytes": "165", "removed": "never"},
    "session_tombstones": {"row": "each deleted session", "bytes": "200", "removed": "after the tombstone period"},
    "workers": {
        "row": "each worker process",
        "bytes": "160",
        "removed": "when it stops, or a minute after its turns are taken over",
    },
}
