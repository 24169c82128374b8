"""Creates the tables for artifacts, their sessions, and their copies in the company's files."""

from alembic import op

from libs.blobs.schema import create_blob_tables
from libs.eventing.schema import create_eventing_tables
from libs.quotas.schema import count_rows

revision = "0001"
down_revision = None

# Deleted sessions stay as tombstones, so that late uploads are rejected.
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
    # Deleted artifacts stay as tombstones without their bytes. platform_command_id: the unanswered command to
    # ingestion. holder: the process with the lease, as the number of the lock that it holds while it's alive.
    """
    CREATE TABLE artifacts (
        id text CONSTRAINT pk_artifacts PRIMARY KEY,
        session_id text NOT NULL CONSTRAINT fk_artifacts_session_id_sessions REFERENCES sessions (id),
        blob_id text CONSTRAINT fk_artifacts_blob_id_blobs REFERENCES blobs (id),
        name text NOT NULL,
        content_type text NOT NULL,
        size bigint NOT NULL,
        sha256 text NOT NULL,
        origin text NOT NULL CONSTRAINT ck_artifacts_origin CHECK (origin IN ('uploaded', 'generated')),
        strategy text NOT NULL,
        created_by text NOT NULL,
        correlation_id text NOT NULL,
        status text NOT NULL DEFAULT 'pending'
            CONSTRAINT ck_artifacts_status CHECK (status IN ('pending', 'ready', 'failed')),
        progress integer NOT NULL DEFAULT 0,
        error jsonb,
        metadata jsonb NOT NULL DEFAULT '{}',
        attempts integer NOT NULL DEFAULT 0,
        lease text,
        lease_until timestamptz,
        platform_state text NOT NULL DEFAULT 'none'
            CONSTRAINT ck_artifacts_platform_state CHECK (platform_state IN ('none', 'copying', 'copied', 'removing')),
        platform_file_id text,
        platform_command_id text,
        platform_identity jsonb,
        platform_correlation_id text,
        platform_sent_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        deleted_at timestamptz,
        holder integer,
        CONSTRAINT ck_artifacts_deleted CHECK ((blob_id IS NULL) = (deleted_at IS NOT NULL))
    )
    """,
    "CREATE INDEX ix_artifacts_of_session ON artifacts (session_id)",
    "CREATE INDEX ix_artifacts_session_id ON artifacts (session_id, created_at, id) WHERE deleted_at IS NULL",
    "CREATE INDEX ix_artifacts_blob_id ON artifacts (blob_id) WHERE blob_id IS NOT NULL",
    """
    CREATE INDEX ix_artifacts_pending ON artifacts (strategy, created_at)
        WHERE blob_id IS NOT NULL AND status = 'pending'
    """,
    "CREATE INDEX ix_artifacts_deleted_at ON artifacts (deleted_at, id) WHERE deleted_at IS NOT NULL",
    "CREATE INDEX ix_artifacts_moving ON artifacts (platform_sent_at) WHERE platform_state IN ('copying', 'removing')",
    "CREATE INDEX ix_artifacts_platform_file_id ON artifacts (platform_file_id) WHERE platform_file_id IS NOT NULL",
    """
    CREATE INDEX ix_artifacts_platform_command_id ON artifacts (platform_command_id)
        WHERE platform_command_id IS NOT NULL
    """,
)
# Commands that end when the copy has been created or removed.
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
    create_blob_tables(op)
    for noun in (SESSIONS, ARTIFACTS, PLATFORM_REQUESTS):
        for statement in noun:
            op.execute(statement)
    count_rows(op, "artifacts", {"artifact_bytes": "{row}.size"}, counted="{row}.deleted_at IS NULL", company=COMPANY)


# For docs/operate/data.md.
TABLES = {
    "sessions": {
        "row": "each session that has artifacts or was deleted",
        "bytes": "230",
        "removed": "one tombstone period after its deletion, once it has no artifacts",
    },
    "artifacts": {"row": "each artifact", "bytes": "730", "removed": "one tombstone period after its deletion"},
    "blobs": {
        "row": "each distinct content",
        "bytes": "450",
        "removed": "ten minutes after its last artifact is deleted; unfinished uploads after 3 hours",
    },
    "uploads": {"row": "each upload with an `Idempotency-Key`", "bytes": "450", "removed": "after 3 days"},
    "platform_requests": {
        "row": "each pending copy to, or removal from, the company's files",
        "bytes": "340",
        "removed": "when ingestion answers, or with its artifact",
    },
}
