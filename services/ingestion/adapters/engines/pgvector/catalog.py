"""Catalog of indexes: sizes, statistics, tables."""

from dataclasses import dataclass
from typing import Final

from libs.persistence import Connection, fetch_value
from services.ingestion.adapters.engines.pgvector.tables import IndexTable
from services.ingestion.domain.engines import IndexMissing

# Prior for an empty index: the length of a chunk with default settings.
_USUAL_LENGTH = 120.0
_USUAL_WEIGHT = 2
# As in the migrations, for a database that was restored without the search schema.
_TABLES: Final = (
    "SELECT pg_advisory_xact_lock(hashtextextended('search catalogue', 0))",
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
    """
    CREATE TABLE IF NOT EXISTS search.term_frequencies (
        index_number integer NOT NULL,
        version integer NOT NULL,
        term integer NOT NULL,
        passages integer NOT NULL,
        CONSTRAINT pk_term_frequencies PRIMARY KEY (index_number, version, term)
    )
    """,
)


@dataclass(frozen=True, slots=True)
class Index:
    id: str
    table: IndexTable
    chunks: int
    terms: int
    counted_chunks: int | None
    has_graph: bool
    has_words: bool

    def average_length(self, more_chunks: int = 0, more_terms: int = 0) -> float:
        """Average length of a chunk in terms."""
        chunks = self.chunks + more_chunks + _USUAL_WEIGHT
        return (self.terms + more_terms + _USUAL_WEIGHT * _USUAL_LENGTH) / chunks


async def required(connection: Connection, index_id: str) -> Index:
    """Raises ``IndexMissing``."""
    found = await connection.execute(
        """
        SELECT number, dimensions, passages, terms, counted_passages,
            to_regclass('search.ix_passages_' || number || '_embedding') IS NOT NULL,
            to_regclass('search.ix_passages_' || number || '_terms') IS NOT NULL
        FROM search.indexes WHERE id = %s
        """,
        (index_id,),
    )
    row = await found.fetchone()
    if row is None:
        raise IndexMissing(index_id)
    return Index(index_id, IndexTable(row[0], row[1]), *row[2:])


async def ensure_catalog(connection: Connection) -> None:
    """Creates the catalog's tables where they were lost, inside the caller's transaction."""
    if await fetch_value(
        connection, "SELECT to_regclass('search.indexes') IS NULL OR to_regclass('search.term_frequencies') IS NULL"
    ):
        for statement in _TABLES:
            await connection.execute(statement)
