"""Webhooks: endpoints with their cursors, signing secrets, deliveries, and the workers that send them."""

from alembic import op

revision = "0006"
down_revision = "0005"

_TABLES = (
    # Leases of processes of role `webhooks`; those of dead ones are deleted after a while.
    """
    CREATE TABLE webhook_workers (
        id uuid NOT NULL CONSTRAINT pk_webhook_workers PRIMARY KEY,
        lease_expires_at timestamptz NOT NULL
    )
    """,
    """
    CREATE TABLE webhooks (
        id uuid NOT NULL CONSTRAINT pk_webhooks PRIMARY KEY,
        company_id uuid NOT NULL,
        user_id uuid NOT NULL,
        key_id uuid NOT NULL CONSTRAINT fk_webhooks_key_id_api_keys REFERENCES api_keys (id),
        sees_company boolean NOT NULL,
        url text NOT NULL,
        event_types text[] NOT NULL,
        description text NOT NULL,
        status text NOT NULL CONSTRAINT ck_webhooks_ck_webhooks_status CHECK (status IN ('enabled', 'disabled')),
        disabled_reason text,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        deleted_at timestamptz,
        cursor bigint NOT NULL,
        pending integer NOT NULL DEFAULT 0,
        failing_since timestamptz,
        last_failed_at timestamptz,
        worker_id uuid,
        CONSTRAINT fk_webhooks_company_id_user_id_users
            FOREIGN KEY (company_id, user_id) REFERENCES users (company_id, id)
    )
    """,
    "CREATE INDEX ix_webhooks_company_id_created_at ON webhooks (company_id, created_at)",
    "CREATE INDEX ix_webhooks_key_id ON webhooks (key_id)",
    """
    CREATE TABLE webhook_secrets (
        id uuid NOT NULL CONSTRAINT pk_webhook_secrets PRIMARY KEY,
        webhook_id uuid NOT NULL
            CONSTRAINT fk_webhook_secrets_webhook_id_webhooks REFERENCES webhooks (id) ON DELETE CASCADE,
        ciphertext bytea NOT NULL,
        created_at timestamptz NOT NULL,
        expires_at timestamptz
    )
    """,
    "CREATE UNIQUE INDEX uq_webhook_secrets_webhook_id ON webhook_secrets (webhook_id) WHERE expires_at IS NULL",
    "CREATE INDEX ix_webhook_secrets_webhook_id ON webhook_secrets (webhook_id)",
    # No foreign key: deliveries of a deleted webhook are deleted in batches. Only tests have their event here.
    """
    CREATE TABLE webhook_deliveries (
        id uuid NOT NULL CONSTRAINT pk_webhook_deliveries PRIMARY KEY,
        webhook_id uuid NOT NULL,
        event_id text NOT NULL,
        type text NOT NULL,
        chain text NOT NULL,
        position bigint NOT NULL,
        event bytea,
        status text NOT NULL
            CONSTRAINT ck_webhook_deliveries_ck_webhook_deliveries_status
            CHECK (status IN ('pending', 'delivered', 'failed')),
        attempts smallint NOT NULL,
        next_attempt_at timestamptz,
        last_status smallint,
        last_response text,
        created_at timestamptz NOT NULL
    )
    """,
    "CREATE INDEX ix_webhook_deliveries_webhook_id_created_at ON webhook_deliveries (webhook_id, created_at, id)",
    "CREATE INDEX ix_webhook_deliveries_created_at ON webhook_deliveries (created_at) WHERE status <> 'pending'",
    """
    CREATE INDEX ix_webhook_deliveries_webhook_id_next_attempt_at ON webhook_deliveries (webhook_id, next_attempt_at)
        WHERE status = 'pending' AND next_attempt_at IS NOT NULL
    """,
    """
    CREATE INDEX ix_webhook_deliveries_webhook_id_chain_position ON webhook_deliveries (webhook_id, chain, position)
        WHERE status = 'pending'
    """,
)


def upgrade() -> None:
    for statement in _TABLES:
        op.execute(statement)
