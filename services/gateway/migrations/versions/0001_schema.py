"""Creates the tables for accounts, keys, connections, limits and idempotency keys."""

from alembic import op

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None

ACCOUNTS = (
    """
    CREATE TABLE companies (
        id uuid NOT NULL CONSTRAINT pk_companies PRIMARY KEY,
        name text NOT NULL CONSTRAINT uq_companies_name UNIQUE,
        rate_limit integer CONSTRAINT ck_companies_ck_companies_rate_limit CHECK (rate_limit > 0),
        created_at timestamptz NOT NULL
    )
    """,
    """
    CREATE TABLE users (
        id uuid NOT NULL CONSTRAINT pk_users PRIMARY KEY,
        company_id uuid NOT NULL CONSTRAINT fk_users_company_id_companies REFERENCES companies (id),
        name text NOT NULL,
        created_at timestamptz NOT NULL,
        CONSTRAINT uq_users_company_id_name UNIQUE (company_id, name),
        CONSTRAINT uq_users_company_id_id UNIQUE (company_id, id)
    )
    """,
)
API_KEYS = (
    """
    CREATE TABLE api_keys (
        id uuid NOT NULL CONSTRAINT pk_api_keys PRIMARY KEY,
        company_id uuid NOT NULL,
        user_id uuid NOT NULL,
        name text NOT NULL,
        prefix text NOT NULL,
        digest bytea NOT NULL CONSTRAINT uq_api_keys_digest UNIQUE,
        scopes text[] NOT NULL,
        rate_limit integer CONSTRAINT ck_api_keys_ck_api_keys_rate_limit CHECK (rate_limit > 0),
        created_at timestamptz NOT NULL,
        expires_at timestamptz,
        revoked_at timestamptz,
        successor_id uuid CONSTRAINT fk_api_keys_successor_id_api_keys REFERENCES api_keys (id),
        CONSTRAINT fk_api_keys_company_id_user_id_users
            FOREIGN KEY (company_id, user_id) REFERENCES users (company_id, id)
    )
    """,
    "CREATE INDEX ix_api_keys_company_id_created_at ON api_keys (company_id, created_at)",
    "CREATE INDEX ix_api_keys_user_id ON api_keys (company_id, user_id, created_at, id)",
    # For deleting old keys: finds revoked and expired keys, and the keys that they replaced.
    "CREATE INDEX ix_api_keys_ended ON api_keys (least(revoked_at, expires_at))",
    "CREATE INDEX ix_api_keys_successor_id ON api_keys (successor_id) WHERE successor_id IS NOT NULL",
)
# Publishable browser keys.
CONNECTIONS = (
    """
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
    """,
    "CREATE INDEX ix_connections_company_id_created_at ON connections (company_id, created_at)",
    "CREATE INDEX ix_connections_user_id ON connections (company_id, user_id, created_at, id)",
)
# Shared by all gateways. Unlogged, since they needn't survive a crash: buckets refill within a minute, and gateways
# report their slots again.
LIMITS = (
    """
    CREATE UNLOGGED TABLE rates (
        holder text,
        name text,
        tokens double precision NOT NULL,
        granted double precision NOT NULL,
        refilled_at timestamptz NOT NULL,
        CONSTRAINT pk_rates PRIMARY KEY (holder, name)
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
IDEMPOTENCY = (
    """
    CREATE TABLE idempotency_keys (
        company_id uuid NOT NULL,
        principal_id text NOT NULL,
        method text NOT NULL,
        path text NOT NULL,
        key text NOT NULL,
        body_hash bytea NOT NULL,
        command_id uuid NOT NULL,
        correlation_id text NOT NULL,
        created_at timestamptz NOT NULL,
        CONSTRAINT pk_idempotency_keys PRIMARY KEY (company_id, principal_id, method, path, key)
    )
    """,
    "CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at)",
)


def upgrade() -> None:
    create_eventing_tables(op)
    for noun in (ACCOUNTS, API_KEYS, CONNECTIONS, LIMITS, IDEMPOTENCY):
        for statement in noun:
            op.execute(statement)


# Shown in docs/operate/data.md.
TABLES = {
    "companies": {"row": "each company", "bytes": "165", "removed": "never"},
    "users": {"row": "each user", "bytes": "275", "removed": "never"},
    "api_keys": {
        "row": "each key",
        "bytes": "570",
        "removed": "after the tombstone period, counted from its revocation or expiry",
    },
    "rates": {
        "row": "each rate limit of a company or key",
        "bytes": "230",
        "removed": "two minutes after the last request",
    },
    "company_streams": {
        "row": "each company with open streams, per gateway",
        "bytes": "255",
        "removed": "two minutes after the last stream",
    },
    "connections": {"row": "each public key", "bytes": "640", "removed": "when deleted"},
    "idempotency_keys": {"row": "each write with an `Idempotency-Key`", "bytes": "590", "removed": "after 3 days"},
}
