"""The table of an index, and the PostgreSQL indexes of large tables."""

from dataclasses import dataclass

from psycopg.sql import SQL, Composed, Identifier, Literal

from services.ingestion.adapters.engines.analysis import NUMBER_OF_TERMS

# Longer vectors do not fit into an 8 KiB page and are fetched from TOAST for every comparison.
_LONGEST_IN_PLACE = 3000
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
        # Scans read vectors and weights only; text and terms go to TOAST.
        storage = SQL(
            "ALTER TABLE {table} ALTER embedding SET STORAGE {place}, ALTER weights SET STORAGE MAIN,"
            " ALTER terms SET STORAGE EXTENDED, ALTER content SET STORAGE EXTENDED"
        ).format(table=self.name, place=SQL("PLAIN" if self.dimensions <= _LONGEST_IN_PLACE else "EXTERNAL"))
        return [table, storage]

    def create_graph(self) -> Composed:
        return SQL("CREATE INDEX IF NOT EXISTS {index} ON {table} USING hnsw (embedding halfvec_ip_ops)").format(
            index=Identifier(self.graph_name), table=self.name
        )

    def create_words(self) -> Composed:
        return SQL("CREATE INDEX IF NOT EXISTS {index} ON {table} USING gin (terms)").format(
            index=Identifier(self.words_name), table=self.name
        )

    @property
    def _plain(self) -> str:
        return f"passages_{self.number}"
