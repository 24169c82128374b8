"""Turns count the time of work on them, and models have prices."""

from alembic import op

revision = "0014"
down_revision = "0012"

_CHANGES = (
    # Seconds of the executions before the last wait, and the beginning of the one after it.
    "ALTER TABLE turns ADD COLUMN worked double precision NOT NULL DEFAULT 0, ADD COLUMN claimed_at timestamptz",
    """
    CREATE TABLE model_prices (
        model text NOT NULL CONSTRAINT pk_model_prices PRIMARY KEY,
        input_price numeric(20, 8) NOT NULL CONSTRAINT ck_model_prices_input_price CHECK (input_price >= 0),
        output_price numeric(20, 8) NOT NULL CONSTRAINT ck_model_prices_output_price CHECK (output_price >= 0),
        updated_at timestamptz NOT NULL DEFAULT now()
    )
    """,
)


def upgrade() -> None:
    for statement in _CHANGES:
        op.execute(statement)
