"""Usage of companies by the hour."""

from alembic import op

revision = "0007"
down_revision = "0006"

_STATEMENTS = (
    """
    CREATE TABLE usage_hours (
        company_id text NOT NULL,
        hour timestamptz NOT NULL,
        user_id text NOT NULL,
        key_id text NOT NULL,
        agent_id text NOT NULL,
        model text NOT NULL,
        turns bigint NOT NULL,
        input_tokens bigint NOT NULL,
        output_tokens bigint NOT NULL,
        tool_calls bigint NOT NULL,
        seconds numeric NOT NULL,
        cost numeric NOT NULL,
        unpriced_turns bigint NOT NULL,
        CONSTRAINT pk_usage_hours PRIMARY KEY (company_id, hour, user_id, key_id, agent_id, model)
    )
    """,
    # By which hours are deleted that are older than the retention.
    "CREATE INDEX ix_usage_hours_hour ON usage_hours (hour)",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
