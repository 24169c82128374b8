"""Knowledge bases, their indexes and ingestions; the items of these are the truth about what is done."""

from alembic import op

revision = "0002"
down_revision = "0001"

_STATEMENTS = (
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
    "COMMENT ON COLUMN knowledge_bases.index_id IS 'what is searched'",
    "COMMENT ON COLUMN knowledge_bases.run_id IS 'the last ingestion, or the deletion'",
    """
    CREATE INDEX ix_knowledge_bases_company_id ON knowledge_bases (company_id, created_at, id)
    WHERE deleting_at IS NULL
    """,
    "CREATE INDEX ix_knowledge_bases_deleting_at ON knowledge_bases (id) "
    "WHERE deleting_at IS NOT NULL AND deleted_at IS NULL",
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
    "CREATE INDEX ix_knowledge_base_indexes_drop_after ON knowledge_base_indexes (drop_after) "
    "WHERE drop_after IS NOT NULL",
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
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE UNIQUE INDEX uq_ingestion_runs_active ON ingestion_runs (knowledge_base_id)
    WHERE state IN ('planning', 'running', 'finishing')
    """,
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
        CONSTRAINT pk_ingestion_items PRIMARY KEY (index_id, file_id)
    )
    """,
    "CREATE INDEX ix_ingestion_items_file_id ON ingestion_items (file_id)",
    """
    CREATE INDEX ix_ingestion_items_unfinished ON ingestion_items (index_id)
    WHERE state IN ('pending', 'running', 'removing')
    """,
    """
    CREATE INDEX ix_ingestion_items_due ON ingestion_items (index_id, file_id)
    WHERE sent_at IS NULL AND state IN ('pending', 'removing')
    """,
    "CREATE INDEX ix_ingestion_items_token ON ingestion_items (token) WHERE token IS NOT NULL",
    """
    CREATE TABLE knowledge_base_views (
        knowledge_base_id text NOT NULL,
        user_id text NOT NULL,
        status_version integer NOT NULL,
        CONSTRAINT pk_knowledge_base_views PRIMARY KEY (knowledge_base_id, user_id)
    )
    """,
)


def upgrade() -> None:
    for statement in _STATEMENTS:
        op.execute(statement)
