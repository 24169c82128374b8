"""Creates the tables for the timeline, webhooks, deliveries and usage."""

from alembic import op

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None

# A numbered log of every company's events, partitioned by the day on which they're stored.
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
    # Also finds redelivered events, which have the same subject and sequence.
    """
    CREATE INDEX ix_timeline_events_company_id_subject_sequence
        ON timeline_events (company_id, subject, sequence)
    """,
    # Processes of role `log` add later days.
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
    # Leases of the processes of role `webhooks`. Leases of dead processes are deleted after a while. presence: the
    # number of the lock that the process holds while it runs.
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
        key_id uuid NOT NULL,
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
        worker_id uuid
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
    # No foreign key, because a deleted webhook's deliveries are deleted in batches. Only test deliveries store their
    # event here.
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
# A command sent before the revocation may arrive after it.
REVOKED_KEYS = (
    """
    CREATE TABLE revoked_keys (
        id uuid NOT NULL CONSTRAINT pk_revoked_keys PRIMARY KEY,
        revoked_at timestamptz NOT NULL
    )
    """,
    "CREATE INDEX ix_revoked_keys_revoked_at ON revoked_keys (revoked_at)",
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
    # Used to delete hours older than the retention period.
    "CREATE INDEX ix_usage_hours_hour ON usage_hours (hour)",
)


def upgrade() -> None:
    create_eventing_tables(op)
    for noun in (TIMELINE, WEBHOOKS, REVOKED_KEYS, USAGE):
        for statement in noun:
            op.execute(statement)


# Shown in docs/operate/data.md.
TABLES = {
    "timeline_events": {
        "row": "each event of every service",
        "bytes": "2,050 with a payload of 770 bytes",
        "removed": "with its day's partition, after `AES_TIMELINE_DAYS` (30)",
    },
    "timeline_counters": {"row": "each company", "bytes": "155", "removed": "never"},
    "timeline_offsets": {"row": "each partition of an event topic", "bytes": "135", "removed": "never"},
    "usage_hours": {
        "row": "each hour and combination of user, key, agent and model",
        "bytes": "690",
        "removed": "after `AES_TIMELINE_USAGE_DAYS` (400)",
    },
    "webhooks": {"row": "each webhook", "bytes": "400", "removed": "once it's deleted and has no deliveries left"},
    "webhook_secrets": {
        "row": "each secret of a webhook, two during rotation",
        "bytes": "270",
        "removed": "with its webhook, or at the next rotation after it expires",
    },
    "webhook_deliveries": {
        "row": "each event sent to a webhook",
        "bytes": "450",
        "removed": "after 7 days, or 30 for disabled webhooks",
    },
    "webhook_workers": {
        "row": "each process with the role `webhooks`",
        "bytes": "95",
        "removed": "when it stops, or an hour after a crash",
    },
    "revoked_keys": {"row": "each revoked key", "bytes": "90", "removed": "after the tombstone period"},
}
