"""Budgets of companies, users and keys."""

from alembic import op

revision = "0015"
down_revision = "0014"

_STATEMENTS = (
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


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
