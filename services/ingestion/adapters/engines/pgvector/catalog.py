"""The catalog of indexes, with their sizes, statistics and tables."""

from dataclasses import dataclass

from psycopg.sql import SQL, Composed, Identifier, Literal

from libs.persistence import Connection, fetch_value
from services.ingestion.adapters.engines.analysis import NUMBER_OF_TERMS
from services.ingestion.adapters.engines.pgvector.schema import CATALOG
from services.ingestion.domain.engines import IndexMissing

# The initial estimate for an empty index is the length of a chunk with default settings.
_USUAL_LENGTH = 120.0
_USUAL_WEIGHT = 2
# Longer vectors don't fit into an 8 KiB page, so each comparison would fetch them from TOAST.
_LONGEST_INLINE = 3000
_MOST_DIMENSIONS_OF_A_GRAPH = 4000


@dataclass(frozen=True, slots=True)
class IndexTable:
    number: int
    dimensions: int

    @property
    def name(self) -> Composed:
        return SQL("search.{}").format(Identifier(self._plain))

    @property
    def graph_name(self) -> str:
        return f"ix_{self._plain}_embedding"

    @property
    def words_name(self) -> str:
        return f"ix_{self._plain}_terms"

    @property
    def may_have_graph(self) -> bool:
        return self.dimensions <= _MOST_DIMENSIONS_OF_A_GRAPH

    def create(self) -> list[Composed]:
        table = SQL(
            """
            CREATE TABLE {table} (
                file_id text COLLATE "C" NOT NULL,
                id text COLLATE "C" NOT NULL,
                position integer NOT NULL,
                start_offset integer NOT NULL,
                end_offset integer NOT NULL,
                page integer,
                row_number integer,
                length integer NOT NULL,
                average_length real NOT NULL,
                embedding halfvec({dimensions}) NOT NULL,
                weights sparsevec({terms}) NOT NULL,
                terms integer[] NOT NULL,
                content text NOT NULL,
                CONSTRAINT {key} PRIMARY KEY (file_id, id)
            )
            """
        ).format(
            table=self.name,
            dimensions=Literal(self.dimensions),
            terms=Literal(NUMBER_OF_TERMS),
            key=Identifier(f"pk_{self._plain}"),
        )
        # Scans only read vectors and weights, so text and terms are stored in TOAST.
        storage = SQL(
            "ALTER TABLE {table} ALTER embedding SET STORAGE {place}, ALTER weights SET STORAGE MAIN,"
            " ALTER terms SET STORAGE EXTENDED, ALTER content SET STORAGE EXTENDED"
        ).format(table=self.name, place=SQL("PLAIN" if self.dimensions <= _LONGEST_INLINE else "EXTERNAL"))
        return [table, storage]

    def create_graph(self) -> Composed:
        return self._create_index(self.graph_name, SQL("hnsw (embedding halfvec_ip_ops)"))

    def create_words(self) -> Composed:
        return self._create_index(self.words_name, SQL("gin (terms)"))

    def _create_index(self, name: str, method: SQL) -> Composed:
        return SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING {}").format(Identifier(name), self.name, method)

    @property
    def _plain(self) -> str:
        return f"passages_{self.number}"


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
        """Returns the average number of terms per chunk, including chunks that are about to be added."""
        chunks = self.chunks + more_chunks + _USUAL_WEIGHT
        return (self.terms + more_terms + _USUAL_WEIGHT * _USUAL_LENGTH) / chunks


async def required(connection: Connection, index_id: str) -> Index:
    """Returns the index's entry in the catalog. Raises ``IndexMissing``."""
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
    """Recreates the catalog's tables in the caller's transaction if they're missing."""
    if await fetch_value(
        connection, "SELECT to_regclass('search.indexes') IS NULL OR to_regclass('search.term_frequencies') IS NULL"
    ):
        # The lock makes concurrent callers wait, so that only one creates the tables.
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('search catalogue', 0))")
        for statement in CATALOG:
            await connection.execute(statement)
