"""Companies say how long their sessions are kept."""

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE retention (
            company_id text NOT NULL CONSTRAINT pk_retention PRIMARY KEY,
            session_retention_days integer CONSTRAINT ck_retention_days CHECK (session_retention_days > 0),
            updated_at timestamptz NOT NULL DEFAULT now()
        )
    """)
