"""Connections: publishable browser keys."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("""
        CREATE TABLE connections (
            id uuid NOT NULL CONSTRAINT pk_connections PRIMARY KEY,
            company_id uuid NOT NULL,
            user_id uuid NOT NULL,
            name text NOT NULL,
            key text NOT NULL CONSTRAINT uq_connections_key UNIQUE,
            agent_id uuid NOT NULL,
            agent_key text NOT NULL,
            allowed_origins text[] NOT NULL,
            scopes text[] NOT NULL,
            quota integer CONSTRAINT ck_connections_ck_connections_quota CHECK (quota > 0),
            created_at timestamptz NOT NULL,
            expires_at timestamptz,
            CONSTRAINT fk_connections_company_id_user_id_users
                FOREIGN KEY (company_id, user_id) REFERENCES users (company_id, id)
        )
    """)
    op.execute("CREATE INDEX ix_connections_company_id_created_at ON connections (company_id, created_at)")
