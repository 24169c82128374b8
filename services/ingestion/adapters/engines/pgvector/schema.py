"""The schema of the index catalog."""

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
    "COMMENT ON COLUMN search.indexes.passages IS 'passages written, including deleted ones until the next count'",
    "COMMENT ON COLUMN search.indexes.terms IS 'terms in these passages, counting repetitions'",
    "COMMENT ON COLUMN search.indexes.counted_passages IS 'number of passages at the last count of term frequencies'",
    """
    CREATE TABLE IF NOT EXISTS search.term_frequencies (
        index_number integer NOT NULL,
        version integer NOT NULL,
        term integer NOT NULL,
        passages integer NOT NULL,
        CONSTRAINT pk_term_frequencies PRIMARY KEY (index_number, version, term)
    )
    """,
    "COMMENT ON TABLE search.term_frequencies IS 'terms that occur in more than one passage'",
)
