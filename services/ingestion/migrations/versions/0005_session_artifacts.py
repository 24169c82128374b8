"""Documents of sessions: indexed for the artifacts service."""

from alembic import op

revision = "0005"
down_revision = "0004"

_STATEMENTS = (
    # Deleted ones stay as tombstones, so that late events change nothing. engine and index_id: where chunks may be.
    """
    CREATE TABLE artifact_documents (
        artifact_id text CONSTRAINT pk_artifact_documents PRIMARY KEY,
        company_id text NOT NULL,
        session_id text NOT NULL,
        name text NOT NULL,
        content_type text NOT NULL,
        correlation_id text NOT NULL,
        state text NOT NULL DEFAULT 'pending' CONSTRAINT ck_artifact_documents_state
            CHECK (state IN ('pending', 'indexed', 'failed', 'deleted')),
        token text,
        lease_until timestamptz,
        attempts integer NOT NULL DEFAULT '0',
        engine text,
        index_id text,
        created_at timestamptz NOT NULL DEFAULT now(),
        changed_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "CREATE INDEX ix_artifact_documents_pending ON artifact_documents (created_at) WHERE state = 'pending'",
    "CREATE INDEX ix_artifact_documents_leaving ON artifact_documents (changed_at) "
    "WHERE state = 'deleted' AND index_id IS NOT NULL",
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
