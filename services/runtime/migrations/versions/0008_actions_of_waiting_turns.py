"""Turns wait for actions: answers from outside, each a row that is open until it is resolved or its turn ends."""

from alembic import op

from libs.persistence.check_constraints import validate_check, widen_check
from libs.persistence.index_builds import build_index

revision = "0008"
down_revision = "0007"

_STATUS = "status IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')"
_ACTIONS = (
    """
    CREATE TABLE actions (
        id text NOT NULL CONSTRAINT pk_actions PRIMARY KEY,
        turn_id text NOT NULL CONSTRAINT fk_actions_turn_id_turns REFERENCES turns,
        session_id text NOT NULL,
        company_id text NOT NULL,
        owner_id text NOT NULL,
        kind text NOT NULL CONSTRAINT ck_actions_kind CHECK (kind IN ('approval', 'tool_result')),
        step integer NOT NULL,
        call_id text NOT NULL,
        tool_call json NOT NULL,
        call_hash text NOT NULL,
        state text NOT NULL DEFAULT 'open'
            CONSTRAINT ck_actions_state CHECK (state IN ('open', 'resolved', 'closed')),
        decision text CONSTRAINT ck_actions_decision CHECK (decision IN ('approve', 'deny', 'expired')),
        answer_hash text,
        resolved_by text,
        created_at timestamptz NOT NULL DEFAULT now(),
        expires_at timestamptz NOT NULL,
        resolved_at timestamptz,
        CONSTRAINT uq_actions_turn_id_call_id UNIQUE (turn_id, call_id)
    )
    """,
    "CREATE INDEX ix_actions_session_id ON actions (session_id, created_at, id) WHERE state = 'open'",
    "CREATE INDEX ix_actions_company_id ON actions (company_id, created_at, id) WHERE state = 'open'",
    "CREATE INDEX ix_actions_owner_id ON actions (company_id, owner_id, created_at, id) WHERE state = 'open'",
    "CREATE INDEX ix_actions_expires_at ON actions (expires_at) WHERE state = 'open'",
)


def upgrade() -> None:
    widen_check(op, "turns", "ck_turns_status", _STATUS)
    # Apart from the indexes of live turns: queries of admission, claims and take-overs never meet a waiting one.
    build_index(op, "uq_turns_waiting", "turns (session_id) WHERE status = 'waiting'", unique=True)
    validate_check(op, "turns", "ck_turns_status")
    # Last, as its foreign key locks out writers of turns until the commit.
    for statement in _ACTIONS:
        op.execute(statement)
