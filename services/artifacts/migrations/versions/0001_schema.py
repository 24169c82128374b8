"""Artifacts of sessions, the sessions as far as they are known here, and copies to the platform."""

from alembic import op

from libs.eventing.schema import create_eventing_tables
from libs.quotas.schema import count_rows

revision = "0001"
down_revision = None

# Deleted sessions stay as tombstones, so that late uploads find no place.
SESSIONS = (
    """
    CREATE TABLE sessions (
        id text CONSTRAINT pk_sessions PRIMARY KEY,
        company_id text NOT NULL,
        owner_id text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        deleted_at timestamptz
    )
    """,
    "CREATE INDEX ix_sessions_deleted_at ON sessions (deleted_at) WHERE deleted_at IS NOT NULL",
)
ARTIFACTS = (
    # emptied_at: when the bytes of a deleted artifact were removed. bytes_gone_at: when that was done once more, after
    # the last writer. platform_command_id: the command to ingestion that was not answered yet. holder: the process of
    # the lease, by the number of the lock that it holds while it lives.
    """
    CREATE TABLE artifacts (
        id text CONSTRAINT pk_artifacts PRIMARY KEY,
        session_id text NOT NULL CONSTRAINT fk_artifacts_session_id_sessions REFERENCES sessions (id),
        state text NOT NULL DEFAULT 'uploading'
            CONSTRAINT ck_artifacts_state CHECK (state IN ('uploading', 'stored', 'abandoned', 'deleted')),
        state_since timestamptz NOT NULL DEFAULT now(),
        name text NOT NULL,
        content_type text NOT NULL,
        origin text NOT NULL CONSTRAINT ck_artifacts_origin CHECK (origin IN ('uploaded', 'generated')),
        strategy text NOT NULL,
        created_by text NOT NULL,
        correlation_id text NOT NULL,
        size bigint,
        sha256 text,
        status text NOT NULL DEFAULT 'pending'
            CONSTRAINT ck_artifacts_status CHECK (status IN ('pending', 'ready', 'failed')),
        progress integer NOT NULL DEFAULT 0,
        error jsonb,
        metadata jsonb NOT NULL DEFAULT '{}',
        attempts integer NOT NULL DEFAULT 0,
        lease text,
        lease_until timestamptz,
        emptied_at timestamptz,
        bytes_gone_at timestamptz,
        platform_state text NOT NULL DEFAULT 'none'
            CONSTRAINT ck_artifacts_platform_state CHECK (platform_state IN ('none', 'copying', 'copied', 'removing')),
        platform_file_id text,
        platform_command_id text,
        platform_identity jsonb,
        platform_correlation_id text,
        platform_sent_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        holder integer,
        CONSTRAINT ck_artifacts_stored CHECK (state <> 'stored' OR (sha256 IS NOT NULL AND size IS NOT NULL))
    )
    """,
    "CREATE INDEX ix_artifacts_of_session ON artifacts (session_id)",
    "CREATE INDEX ix_artifacts_session_id ON artifacts (session_id, created_at, id) WHERE state = 'stored'",
    """
    CREATE INDEX ix_artifacts_pending ON artifacts (strategy, created_at)
        WHERE state = 'stored' AND status = 'pending'
    """,
    "CREATE INDEX ix_artifacts_leaving ON artifacts (state_since) WHERE state <> 'stored' AND bytes_gone_at IS NULL",
    "CREATE INDEX ix_artifacts_bytes_gone_at ON artifacts (bytes_gone_at) WHERE state = 'deleted'",
    "CREATE INDEX ix_artifacts_moving ON artifacts (platform_sent_at) WHERE platform_state IN ('copying', 'removing')",
    "CREATE INDEX ix_artifacts_platform_file_id ON artifacts (platform_file_id) WHERE platform_file_id IS NOT NULL",
    """
    CREATE INDEX ix_artifacts_platform_command_id ON artifacts (platform_command_id)
        WHERE platform_command_id IS NOT NULL
    """,
)
UPLOAD_KEYS = (
    """
    CREATE TABLE upload_keys (
        session_id text,
        user_id text,
        key text,
        content_hash text NOT NULL,
        artifact_id text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_upload_keys PRIMARY KEY (session_id, user_id, key)
    )
    """,
    "CREATE INDEX ix_upload_keys_created_at ON upload_keys (created_at)",
)
# Commands that end when the copy is made or removed.
PLATFORM_REQUESTS = (
    """
    CREATE TABLE platform_requests (
        command_id text CONSTRAINT pk_platform_requests PRIMARY KEY,
        artifact_id text NOT NULL
            CONSTRAINT fk_platform_requests_artifact_id_artifacts REFERENCES artifacts (id) ON DELETE CASCADE,
        state text NOT NULL CONSTRAINT ck_platform_requests_state CHECK (state IN ('copying', 'removing')),
        company_id text NOT NULL,
        correlation_id text NOT NULL,
        traceparent text
    )
    """,
    "CREATE INDEX ix_platform_requests_artifact_id ON platform_requests (artifact_id)",
)
COMPANY = "(SELECT s.company_id FROM sessions s WHERE s.id = {row}.session_id)"


def upgrade() -> None:
    create_eventing_tables(op)
    for noun in (SESSIONS, ARTIFACTS, UPLOAD_KEYS, PLATFORM_REQUESTS):
        for statement in noun:
            op.execute(statement)
    count_rows(op, "artifacts", {"artifact_bytes": "{row}.size"}, counted="{row}.state = 'stored'", company=COMPANY)
