"""Tables of blobs and idempotent uploads."""

from types import ModuleType

from alembic.operations import Operations

_STATEMENTS = (
    # since: when the blob entered its state.
    """
    CREATE TABLE blobs (
        id text CONSTRAINT pk_blobs PRIMARY KEY,
        company_id text NOT NULL,
        state text NOT NULL DEFAULT 'uploading'
            CONSTRAINT ck_blobs_state CHECK (state IN ('uploading', 'stored', 'unused', 'abandoned', 'emptied')),
        since timestamptz NOT NULL DEFAULT now(),
        sha256 text,
        CONSTRAINT ck_blobs_stored CHECK (state NOT IN ('stored', 'unused') OR sha256 IS NOT NULL)
    )
    """,
    "CREATE UNIQUE INDEX uq_blobs_company_id_sha256 ON blobs (company_id, sha256) WHERE state IN ('stored', 'unused')",
    "CREATE INDEX ix_blobs_leaving ON blobs (state, since) WHERE state <> 'stored'",
    # ids: the owner's rows that the upload created. scope: a user's keys are unique within it.
    """
    CREATE TABLE uploads (
        scope text,
        user_id text,
        key text,
        content_hash text NOT NULL,
        ids text[] NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_uploads PRIMARY KEY (scope, user_id, key)
    )
    """,
    "CREATE INDEX ix_uploads_created_at ON uploads (created_at)",
)


def create_blob_tables(op: Operations | ModuleType) -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
