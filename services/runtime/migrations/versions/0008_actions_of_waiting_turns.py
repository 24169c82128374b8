"""Turns have waits, each a row that is open until it is resolved or its turn ends."""

from alembic import op

from libs.persistence.check_constraints import validate_check, widen_check
from libs.persistence.index_builds import build_index

revision = "0008"
down_revision = "0007"

_STATUS = "status IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')"
_WAITS = (
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


def upgrade() -> None:
    widen_check(op, "turns", "ck_turns_status", _STATUS)
    # Apart from the indexes of live turns: queries of admission, claims and take-overs never meet a waiting one.
    build_index(op, "uq_turns_waiting", "turns (session_id) WHERE status = 'waiting'", unique=True)
    validate_check(op, "turns", "ck_turns_status")
    # Last, as its foreign key locks out writers of turns until the commit.
    for statement in _WAITS:
        op.execute(statement)
