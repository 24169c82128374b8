"""Schema of the index catalog. Each index has its own table, created with the index."""

from typing import Final

CATALOG: Final = (
    "CREATE SCHEMA IF NOT EXISTS search",
    """
    CREATE TABLE IF NOT EXISTS search.indexes (
        id text COLLATE "C" NOT NULL CONSTRAINT pk_indexes PRIMARY KEY,
        number integer GENERATED ALWAYS AS IDENTITY CONSTRAINT uq_indexes_number UNIQUE,
        dimensions integer NOT NULL,
        passages bigint NOT NULL DEFAULT 0,
        terms bigint NOT NULL DEFAULT 0,
        counted_passages bigint,
        version integer NOT NULL DEFAULT 0,
        created_at timestamptz NOT NULL DEFAULT now()
    )
    """,
    "COMMENT ON COLUMN search.indexes.passages IS 'written so far, deleted ones included until the next count'",
    "COMMENT ON COLUMN search.indexes.terms IS 'in those passages, repetitions included'",
    "COMMENT ON COLUMN search.indexes.counted_passages IS 'when term frequencies were last counted'",
    """
    CREATE TABLE IF NOT EXISTS search.term_frequencies (
        index_number integer NOT NULL,
        version integer NOT NULL,
        term integer NOT NULL,
        passages integer NOT NULL,
        CONSTRAINT pk_term_frequencies PRIMARY KEY (index_number, version, term)
    )
    """,
    "COMMENT ON TABLE search.term_frequencies IS 'of terms that are in more than one passage'",
)
