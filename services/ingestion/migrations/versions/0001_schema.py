"""Creates the tables for files, texts, collections, knowledge bases, ingestions and session documents."""

from alembic import op

from libs.blobs.schema import create_blob_tables
from libs.eventing.schema import create_eventing_tables
from libs.quotas.schema import count_rows
from services.ingestion.adapters.engines.pgvector.schema import CATALOG

revision = "0001"
down_revision = None

# In all leases, holder is the number of the holding process's liveness lock.
TEXTS = (
    # The same bytes may produce different texts under different extensions, so the content type is part of the key.
    """
    CREATE TABLE texts (
        blob_id text CONSTRAINT fk_texts_blob_id_blobs REFERENCES blobs (id) ON DELETE CASCADE,
        content_type text,
        state text NOT NULL DEFAULT 'pending'
            CONSTRAINT ck_texts_state CHECK (state IN ('pending', 'running', 'parsed', 'failed')),
        lease_until timestamptz,
        attempts integer NOT NULL DEFAULT 0,
        error_code text,
        error_message text,
        retryable boolean NOT NULL DEFAULT false,
        changed_at timestamptz NOT NULL DEFAULT now(),
        holder integer,
        company_id text NOT NULL,
        CONSTRAINT pk_texts PRIMARY KEY (blob_id, content_type)
    )
    """,
    "CREATE INDEX ix_texts_changed_at ON texts (changed_at)",
    "CREATE INDEX ix_texts_unparsed ON texts (company_id, blob_id) WHERE state IN ('pending', 'running')",
)
# Deleted files stay as tombstones, without their bytes.
FILES = (
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
    "CREATE INDEX ix_files_status ON files (company_id, status, created_at, id) WHERE deleted_at IS NULL",
    "CREATE INDEX ix_files_tags ON files USING gin (tags) WHERE deleted_at IS NULL AND tags <> '{}'",
    "CREATE INDEX ix_files_blob_id ON files (blob_id) WHERE blob_id IS NOT NULL",
    "CREATE INDEX ix_files_deleted_at ON files (deleted_at, id) WHERE deleted_at IS NOT NULL",
    # Searches exclude few files. This index finds them without reading all files.
    "CREATE INDEX ix_files_not_searched ON files (company_id) WHERE status <> 'active' OR deleted_at IS NOT NULL",
)
COLLECTIONS = (
    # published: status, progress, count and size as last published. correlation_id: from the last change of files.
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
        published json NOT NULL,
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
KNOWLEDGE_BASES = (
    """
    CREATE TABLE knowledge_bases (
        id text NOT NULL CONSTRAINT pk_knowledge_bases PRIMARY KEY,
        company_id text NOT NULL,
        name text NOT NULL,
        description text NOT NULL,
        collection_ids text[] NOT NULL,
        file_ids text[] NOT NULL,
        settings jsonb NOT NULL,
        llm_config jsonb NOT NULL,
        status text NOT NULL DEFAULT 'pending'
            CONSTRAINT ck_knowledge_bases_status CHECK (status IN ('pending', 'running', 'completed', 'failed')),
        status_version integer NOT NULL DEFAULT 0,
        index_id text,
        run_id text,
        created_by text NOT NULL,
        created_by_name text NOT NULL,
        company_name text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        deleting_at timestamptz,
        deleted_at timestamptz
    )
    """,
    "COMMENT ON COLUMN knowledge_bases.index_id IS 'the searched index'",
    "COMMENT ON COLUMN knowledge_bases.run_id IS 'the latest ingestion or deletion'",
    """
    CREATE INDEX ix_knowledge_bases_company_id ON knowledge_bases (company_id, created_at, id)
        WHERE deleting_at IS NULL
    """,
    """
    CREATE INDEX ix_knowledge_bases_deleting_at ON knowledge_bases (id)
        WHERE deleting_at IS NOT NULL AND deleted_at IS NULL
    """,
    "CREATE INDEX ix_knowledge_bases_deleted_at ON knowledge_bases (deleted_at) WHERE deleted_at IS NOT NULL",
    """
    CREATE TABLE knowledge_base_views (
        knowledge_base_id text NOT NULL,
        user_id text NOT NULL,
        status_version integer NOT NULL,
        CONSTRAINT pk_knowledge_base_views PRIMARY KEY (knowledge_base_id, user_id)
    )
    """,
    """
    CREATE TABLE knowledge_base_indexes (
        id text NOT NULL CONSTRAINT pk_knowledge_base_indexes PRIMARY KEY,
        knowledge_base_id text NOT NULL
            CONSTRAINT fk_knowledge_base_indexes_knowledge_base_id_knowledge_bases REFERENCES knowledge_bases,
        engine text NOT NULL,
        settings jsonb NOT NULL,
        settings_hash text NOT NULL,
        state text NOT NULL DEFAULT 'building'
            CONSTRAINT ck_knowledge_base_indexes_state CHECK (state IN ('building', 'live', 'retired', 'dropping')),
        drop_after timestamptz,
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE UNIQUE INDEX uq_knowledge_base_indexes_building ON knowledge_base_indexes (knowledge_base_id)
        WHERE state = 'building'
    """,
    """
    CREATE UNIQUE INDEX uq_knowledge_base_indexes_live ON knowledge_base_indexes (knowledge_base_id)
        WHERE state = 'live'
    """,
    "CREATE INDEX ix_knowledge_base_indexes_knowledge_base_id ON knowledge_base_indexes (knowledge_base_id)",
    """
    CREATE INDEX ix_knowledge_base_indexes_drop_after ON knowledge_base_indexes (drop_after)
        WHERE drop_after IS NOT NULL
    """,
)
# Ingestions. Their items are the record of finished work.
RUNS = (
    """
    CREATE TABLE ingestion_runs (
        id text NOT NULL CONSTRAINT pk_ingestion_runs PRIMARY KEY,
        knowledge_base_id text NOT NULL
            CONSTRAINT fk_ingestion_runs_knowledge_base_id_knowledge_bases REFERENCES knowledge_bases,
        company_id text NOT NULL,
        index_id text NOT NULL,
        state text NOT NULL DEFAULT 'planning' CONSTRAINT ck_ingestion_runs_state CHECK
            (state IN ('planning', 'running', 'finishing', 'completed', 'failed', 'superseded')),
        planned_to text NOT NULL DEFAULT '',
        correlation_id text NOT NULL,
        causation_id text,
        traceparent text,
        token text,
        lease_until timestamptz,
        sent_at timestamptz,
        retry_at timestamptz,
        told_at timestamptz,
        changed_at timestamptz NOT NULL DEFAULT now(),
        created_at timestamptz NOT NULL DEFAULT now(),
        holder integer,
        attempts integer NOT NULL DEFAULT 0,
        failure text
    )
    """,
    """
    CREATE UNIQUE INDEX uq_ingestion_runs_active ON ingestion_runs (knowledge_base_id)
        WHERE state IN ('planning', 'running', 'finishing')
    """,
    "CREATE INDEX ix_ingestion_runs_knowledge_base_id ON ingestion_runs (knowledge_base_id)",
    "CREATE INDEX ix_ingestion_runs_changed_at ON ingestion_runs (changed_at)",
    """
    CREATE TABLE ingestion_items (
        index_id text NOT NULL CONSTRAINT fk_ingestion_items_index_id_knowledge_base_indexes
            REFERENCES knowledge_base_indexes ON DELETE CASCADE,
        file_id text NOT NULL,
        run_id text NOT NULL,
        state text NOT NULL DEFAULT 'pending' CONSTRAINT ck_ingestion_items_state
            CHECK (state IN ('pending', 'running', 'ingested', 'failed', 'removing')),
        phase text NOT NULL DEFAULT '',
        chunks integer NOT NULL DEFAULT 0,
        error jsonb,
        attempts integer NOT NULL DEFAULT 0,
        failing_since timestamptz,
        token text,
        lease_until timestamptz,
        sent_at timestamptz,
        retry_at timestamptz,
        changed_at timestamptz NOT NULL DEFAULT now(),
        holder integer,
        CONSTRAINT pk_ingestion_items PRIMARY KEY (index_id, file_id)
    )
    """,
    "CREATE INDEX ix_ingestion_items_file_id ON ingestion_items (file_id)",
    "CREATE INDEX ix_ingestion_items_run_id ON ingestion_items (run_id)",
    "CREATE INDEX ix_ingestion_items_changed_at ON ingestion_items (changed_at)",
    # Single unfinished items are also looked up. Each of this table's indexes is selective enough for that.
    """
    CREATE INDEX ix_ingestion_items_unfinished ON ingestion_items (index_id, file_id)
        WHERE state IN ('pending', 'running', 'removing')
    """,
    """
    CREATE INDEX ix_ingestion_items_due ON ingestion_items (index_id, file_id)
        WHERE sent_at IS NULL AND state IN ('pending', 'removing')
    """,
    # Counts items on their way to a worker without reading all waiting items.
    """
    CREATE INDEX ix_ingestion_items_sent ON ingestion_items (index_id)
        WHERE sent_at IS NOT NULL AND state IN ('pending', 'removing')
    """,
    "CREATE INDEX ix_ingestion_items_token ON ingestion_items (token) WHERE token IS NOT NULL",
)
# Session documents, indexed for the artifacts service.
DOCUMENTS = (
    # Deleted documents stay as tombstones, so that late events change nothing. engine and index_id: where chunks may be
    # stored. lost_at: when the index was lost, until the document is indexed again.
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
        attempts integer NOT NULL DEFAULT 0,
        engine text,
        index_id text,
        created_at timestamptz NOT NULL DEFAULT now(),
        changed_at timestamptz NOT NULL DEFAULT now(),
        lost_at timestamptz,
        owner_id text,
        holder integer
    )
    """,
    """
    CREATE INDEX ix_artifact_documents_pending ON artifact_documents (company_id, (lost_at IS NOT NULL), created_at)
        WHERE state = 'pending'
    """,
    "CREATE INDEX ix_artifact_documents_indexed ON artifact_documents (index_id) WHERE state = 'indexed'",
    """
    CREATE INDEX ix_artifact_documents_leaving ON artifact_documents (changed_at)
        WHERE state = 'deleted' AND index_id IS NOT NULL
    """,
    """
    CREATE INDEX ix_artifact_documents_gone ON artifact_documents (changed_at)
        WHERE state = 'deleted' AND index_id IS NULL
    """,
)
# Only an administrator may create the extension. If the database already has it, this does nothing.
SEARCH = ("CREATE EXTENSION IF NOT EXISTS vector", *CATALOG)


def upgrade() -> None:
    create_eventing_tables(op)
    create_blob_tables(op)
    for noun in (TEXTS, FILES, COLLECTIONS, KNOWLEDGE_BASES, RUNS, DOCUMENTS, SEARCH):
        for statement in noun:
            op.execute(statement)
    count_rows(op, "files", {"files": "1", "file_bytes": "{row}.size"}, counted="{row}.deleted_at IS NULL")


# For docs/operate/data.md.
TABLES = {
    "files": {"row": "each file", "bytes": "860", "removed": "one tombstone period after its deletion"},
    "blobs": {
        "row": "each distinct content",
        "bytes": "450",
        "removed": "a day after its last file is deleted; unfinished uploads after 3 hours",
    },
    "texts": {"row": "each distinct content, per content type", "bytes": "220", "removed": "with its blob"},
    "uploads": {"row": "each upload with an `Idempotency-Key`", "bytes": "470", "removed": "after 3 days"},
    "collections": {"row": "each collection", "bytes": "750", "removed": "when deleted"},
    "collection_files": {"row": "each file in a collection", "bytes": "330", "removed": "with the file or collection"},
    "knowledge_bases": {
        "row": "each knowledge base",
        "bytes": "1,870",
        "removed": "one tombstone period after its deletion",
    },
    "knowledge_base_indexes": {
        "row": "each index, one per combination of settings",
        "bytes": "970",
        "removed": "when it's replaced or its knowledge base is deleted",
    },
    "knowledge_base_views": {
        "row": "each user who viewed a knowledge base",
        "bytes": "250",
        "removed": "with the knowledge base",
    },
    "ingestion_runs": {
        "row": "each ingestion",
        "bytes": "590",
        "removed": "one tombstone period after it ends, except the latest of a knowledge base or file",
    },
    "ingestion_items": {"row": "each file in each index", "bytes": "480", "removed": "with its file or index"},
    "artifact_documents": {
        "row": "each document in a session",
        "bytes": "480",
        "removed": "one tombstone period after its deletion",
    },
    "search.indexes": {
        "row": "each index in pgvector",
        "bytes": "200",
        "removed": "with the index, like its table of passages",
    },
    "search.term_frequencies": {
        "row": "each term in more than one passage of an index",
        "bytes": "85",
        "removed": "with the index, and whenever terms are counted again",
    },
}
