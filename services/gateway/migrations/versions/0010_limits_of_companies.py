"""Limits of companies that all gateways share."""

from alembic import op

revision = "0010"
down_revision = "0009"

# They need not outlive a crash of the database: buckets are full again in a minute, places are stated anew.
_STATEMENTS = (
    """
    CREATE UNLOGGED TABLE company_rates (
        company_id text,
        name text,
        tokens double precision NOT NULL,
        granted double precision NOT NULL,
        refilled_at timestamptz NOT NULL,
        CONSTRAINT pk_company_rates PRIMARY KEY (company_id, name)
    )
    """,
    """
    CREATE UNLOGGED TABLE company_streams (
        company_id text,
        gateway_id text,
        places integer NOT NULL,
        expires_at timestamptz NOT NULL,
        CONSTRAINT pk_company_streams PRIMARY KEY (company_id, gateway_id)
    )
    """,
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
