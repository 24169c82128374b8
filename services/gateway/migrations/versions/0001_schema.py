"""Accounts with their keys, connections and limits, idempotency keys, the timeline, webhooks and usage."""

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
    # Deletions of old keys find those that ended, and the keys that one is the successor of.
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
# Shared by all gateways. Need not outlive a crash of the database: buckets are full again in a minute, places are
# stated anew.
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
# A numbered log of every company's events, partitioned by the day of storing.
TIMELINE = (
    """
    CREATE TABLE timeline_counters (
        company_id text NOT NULL CONSTRAINT pk_timeline_counters PRIMARY KEY,
        position bigint NOT NULL
    )
    """,
    """
    CREATE TABLE timeline_offsets (
        topic text NOT NULL,
        partition integer NOT NULL,
        next_offset bigint NOT NULL,
        CONSTRAINT pk_timeline_offsets PRIMARY KEY (topic, partition)
    )
    """,
    """
    CREATE TABLE timeline_events (
        day date NOT NULL,
        company_id text NOT NULL,
        position bigint NOT NULL,
        id text NOT NULL,
        type text NOT NULL,
        version smallint NOT NULL DEFAULT 1,
        source text NOT NULL,
        subject text NOT NULL,
        sequence bigint NOT NULL,
        "time" text NOT NULL,
        correlation_id text NOT NULL,
        causation_id text,
        session_id text,
        turn_id text,
        owner_id text,
        data bytea NOT NULL,
        CONSTRAINT pk_timeline_events PRIMARY KEY (company_id, position, day)
    ) PARTITION BY RANGE (day)
    """,
    """
    CREATE INDEX ix_timeline_events_company_id_correlation_id_position
        ON timeline_events (company_id, correlation_id, position)
    """,
    """
    CREATE INDEX ix_timeline_events_company_id_session_id_position
        ON timeline_events (company_id, session_id, position) WHERE session_id IS NOT NULL
    """,
    """
    CREATE INDEX ix_timeline_events_company_id_turn_id_position
        ON timeline_events (company_id, turn_id, position) WHERE turn_id IS NOT NULL
    """,
    # Also finds an event that comes a second time: it has the same subject and sequence.
    """
    CREATE INDEX ix_timeline_events_company_id_subject_sequence
        ON timeline_events (company_id, subject, sequence)
    """,
    # Later days are added by the processes of role `timeline`.
    """
    DO $$
    DECLARE
        day date := (now() AT TIME ZONE 'UTC')::date - 1;
    BEGIN
        FOR number IN 1..5 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF timeline_events FOR VALUES FROM (%L) TO (%L)',
                           'timeline_events_' || to_char(day, 'YYYYMMDD'), day, day + 1);
            day := day + 1;
        END LOOP;
    END $$
    """,
)
WEBHOOKS = (
    # Leases of processes of role `webhooks`; those of dead ones are deleted after a while. presence: the number of the
    # lock that the process holds while it lives.
    """
    CREATE TABLE webhook_workers (
        id uuid NOT NULL CONSTRAINT pk_webhook_workers PRIMARY KEY,
        lease_expires_at timestamptz NOT NULL,
        presence integer
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
USAGE = (
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
    create_eventing_tables(op)
    for noun in (ACCOUNTS, API_KEYS, CONNECTIONS, LIMITS, IDEMPOTENCY, TIMELINE, WEBHOOKS, USAGE):
        for statement in noun:
            op.execute(statement)
