"""Files, their bytes and texts, and collections of them."""

from alembic import op

from libs.eventing.schema import create_eventing_tables

revision = "0001"
down_revision = None

_STATEMENTS = (
    # unused_since: since when it is abandoned, or stored without a file that refers to it.
    """
    CREATE TABLE blobs (
        id text CONSTRAINT pk_blobs PRIMARY KEY,
        company_id text NOT NULL,
        state text NOT NULL CONSTRAINT ck_blobs_state CHECK (state IN ('uploading', 'stored', 'abandoned')),
        sha256 text,
        size bigint,
        created_at timestamptz NOT NULL DEFAULT now(),
        unused_since timestamptz,
        CONSTRAINT ck_blobs_stored CHECK (state <> 'stored' OR (sha256 IS NOT NULL AND size IS NOT NULL))
    )
    """,
    "CREATE UNIQUE INDEX uq_blobs_company_id_sha256 ON blobs (company_id, sha256) WHERE state = 'stored'",
    "CREATE INDEX ix_blobs_uploading ON blobs (created_at) WHERE state = 'uploading'",
    "CREATE INDEX ix_blobs_unused_since ON blobs (unused_since) WHERE unused_since IS NOT NULL",
    # The same bytes give another text under another extension, so the kind of document is part of the key.
    """
    CREATE TABLE texts (
        blob_id text CONSTRAINT fk_texts_blob_id_blobs REFERENCES blobs (id) ON DELETE CASCADE,
        content_type text,
        state text NOT NULL DEFAULT 'pending'
            CONSTRAINT ck_texts_state CHECK (state IN ('pending', 'running', 'parsed', 'failed')),
        lease_until timestamptz,
        attempts integer NOT NULL DEFAULT '0',
        characters bigint,
        error_code text,
        error_message text,
        retryable boolean NOT NULL DEFAULT false,
        changed_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_texts PRIMARY KEY (blob_id, content_type)
    )
    """,
    "CREATE INDEX ix_texts_changed_at ON texts (changed_at)",
    "CREATE INDEX ix_texts_unfinished ON texts (blob_id) WHERE state IN ('pending', 'running')",
    # Deleted files stay as tombstones, without their bytes.
    """
    CREATE TABLE files (
        id text CONSTRAINT pk_files PRIMARY KEY,
        company_id text NOT NULL,
        blob_id text CONSTRAINT fk_files_blob_id_blobs REFERENCES blobs (id),
        name text NOT NULL,
        content_type text NOT NULL,
        size bigint NOT NULL,
        sha256 text NOT NULL,
        status text NOT NULL DEFAULT 'active' CONSTRAINT ck_files_status CHECK (status IN ('active', 'inactive')),
        tags text[] NOT NULL DEFAULT '{}',
        created_by text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        deleted_at timestamptz,
        CONSTRAINT ck_files_deleted CHECK ((blob_id IS NULL) = (deleted_at IS NOT NULL))
    )
    """,
    "CREATE INDEX ix_files_company_id ON files (company_id, created_at, id) WHERE deleted_at IS NULL",
    "CREATE INDEX ix_files_blob_id ON files (blob_id) WHERE blob_id IS NOT NULL",
    """
    CREATE TABLE uploads (
        company_id text,
        user_id text,
        key text,
        content_hash text NOT NULL,
        file_ids text[] NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_uploads PRIMARY KEY (company_id, user_id, key)
    )
    """,
    # told: status, progress, count and size as last published; correlation_id: of the last change of its files.
    """
    CREATE TABLE collections (
        id text CONSTRAINT pk_collections PRIMARY KEY,
        company_id text NOT NULL,
        name text NOT NULL,
        description text NOT NULL,
        created_by text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        files_changed_at timestamptz NOT NULL DEFAULT now(),
        told json NOT NULL,
        correlation_id text NOT NULL
    )
    """,
    "CREATE INDEX ix_collections_company_id ON collections (company_id, created_at, id)",
    "CREATE INDEX ix_collections_files_changed_at ON collections (files_changed_at)",
    """
    CREATE TABLE collection_files (
        collection_id text
            CONSTRAINT fk_collection_files_collection_id_collections REFERENCES collections (id) ON DELETE CASCADE,
        file_id text CONSTRAINT fk_collection_files_file_id_files REFERENCES files (id),
        added_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT pk_collection_files PRIMARY KEY (collection_id, file_id)
    )
    """,
    "CREATE INDEX ix_collection_files_file_id ON collection_files (file_id)",
)


def upgrade() -> None:
    create_eventing_tables(op)
    for statement in _STATEMENTS:
        op.execute(statement)
