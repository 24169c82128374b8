"""A knowledge base of ordinary size, and copies of it in any number."""

from dataclasses import dataclass
from typing import Any, Final

import httpx
import psycopg
from aes_client import Client
from psycopg.sql import SQL

from benchmarks.scaling.rows import Stores
from benchmarks.search.latency import Prose
from services.ingestion.adapters.engines.pgvector.tables import IndexTable

_FILES: Final = 300
_CHUNKS_OF_A_FILE: Final = 5
_WORDS_OF_A_CHUNK: Final = 240
_SEARCHES: Final = 100
_MODES: Final = ("semantic", "keyword", "hybrid")
# Ids of a copy are made from those of the original, so that they go on pointing at each other.
_COPY: Final = """
    CREATE FUNCTION pg_temp.copied(id text, number bigint) RETURNS text IMMUTABLE LANGUAGE sql
    RETURN md5(id || number)::uuid::text
"""
_COPIES: Final = {
    "knowledge_bases": ("id", "index_id", "run_id"),
    "knowledge_base_indexes": ("id", "knowledge_base_id"),
    "ingestion_runs": ("id", "knowledge_base_id", "index_id"),
    "files": ("id",),
    "ingestion_items": ("index_id", "file_id", "run_id"),
}
_OF_ORIGINAL: Final = {
    "knowledge_bases": "t.id = %(id)s",
    "knowledge_base_indexes": "t.knowledge_base_id = %(id)s",
    "ingestion_runs": "t.knowledge_base_id = %(id)s",
    "files": "t.id IN (SELECT file_id FROM ingestion_items WHERE index_id = %(index)s)",
    "ingestion_items": "t.index_id = %(index)s",
}
_INDEX: Final = "SELECT index_id FROM knowledge_bases WHERE id = %s"
_CATALOG: Final = "SELECT number, dimensions, passages FROM search.indexes WHERE id = %s"
_COPY_INDEX: Final = """
    INSERT INTO search.indexes (id, dimensions, passages, terms, counted_passages, version)
    SELECT pg_temp.copied(id, %(number)s), dimensions, passages, terms, counted_passages, version
    FROM search.indexes WHERE id = %(index)s RETURNING number
"""
_COPY_FREQUENCIES: Final = """
    INSERT INTO search.term_frequencies (index_number, version, term, passages)
    SELECT %s, version, term, passages FROM search.term_frequencies WHERE index_number = %s
"""
_COLUMNS: Final = SQL(
    "id, position, start_offset, end_offset, page, row_number, length, average_length, embedding, weights, terms,"
    " content"
)


def create_knowledge_base(port: int, api_key: str) -> str:
    """Uploads made-up files and ingests them; returns the id."""
    prose = Prose()
    files = [" ".join(prose.chunk() for _ in range(_CHUNKS_OF_A_FILE)) for _ in range(_FILES)]
    with Client(f"http://127.0.0.1:{port}", api_key) as client:
        ids = [client.files.upload(text.encode(), name=f"{number}.txt").id for number, text in enumerate(files)]
        collection = client.collections.create(name="growth")
        client.collections.add_files(collection.id, ids)
        settings: Any = {"strategy": "fixed_size", "split_by": "word", "chunk_size": _WORDS_OF_A_CHUNK}
        base = client.knowledge_bases.create(name="growth", collection_ids=[collection.id], chunking_strategy=settings)
        client.knowledge_bases.wait(base.id)
        return base.id


def searches(client: httpx.AsyncClient, knowledge_base_id: str) -> dict[str, list[httpx.Request]]:
    """Requests by what is searched by."""
    path = f"/knowledge-bases/{knowledge_base_id}/search/"
    found = {}
    for mode in _MODES:
        prose = Prose()
        wanted = [{"query": prose.query(), "mode": mode} for _ in range(_SEARCHES)]
        found[f"{mode} search"] = [client.build_request("POST", path, json=each) for each in wanted]
    return found


@dataclass(frozen=True)
class KnowledgeBase:
    """Its ``index_id`` is that of its index, whose table has ``number``."""

    id: str
    index_id: str
    table: IndexTable
    passages: int

    @classmethod
    def find(cls, stores: Stores, knowledge_base_id: str) -> "KnowledgeBase":
        with psycopg.connect(stores.ingestion, autocommit=True) as connection:
            [[index_id]] = connection.execute(_INDEX, (knowledge_base_id,)).fetchall()
            [[number, dimensions, passages]] = connection.execute(_CATALOG, (index_id,)).fetchall()
        return cls(knowledge_base_id, index_id, IndexTable(number, dimensions), passages)

    def settle(self, stores: Stores) -> None:
        """Statistics and visibility, as autovacuum leaves them some minutes later."""
        with psycopg.connect(stores.ingestion, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")

    def copy(self, stores: Stores, first: int, last: int) -> None:
        """Adds the copies with these numbers: knowledge bases with their files, and indexes with their passages."""
        with psycopg.connect(stores.ingestion, autocommit=True) as connection:
            connection.execute(_COPY)
            for number in range(first, last + 1):
                stores.check_space()
                # At once, or the service ingests what has no index, and drops the index of nothing.
                with connection.transaction():
                    self._copy_index(connection, number)
                    given = {"id": self.id, "index": self.index_id, "number": number}
                    for table, columns in _COPIES.items():
                        connection.execute(_copies(table, columns).encode(), given)

    def _copy_index(self, connection: psycopg.Connection[Any], number: int) -> None:
        [[made]] = connection.execute(_COPY_INDEX, {"number": number, "index": self.index_id}).fetchall()
        table = IndexTable(made, self.table.dimensions)
        for statement in table.create():
            connection.execute(statement)
        copied = SQL("INSERT INTO {} (file_id, {columns}) SELECT pg_temp.copied(file_id, %s), {columns} FROM {}")
        connection.execute(copied.format(table.name, self.table.name, columns=_COLUMNS), (number,))
        connection.execute(_COPY_FREQUENCIES, (made, self.table.number))


def _copies(table: str, columns: tuple[str, ...]) -> str:
    changed = ", ".join(f"'{column}', pg_temp.copied(t.{column}, %(number)s)" for column in columns)
    return f"""
        INSERT INTO {table}
        SELECT c.* FROM {table} t, jsonb_populate_record(t, jsonb_build_object({changed})) c WHERE {_OF_ORIGINAL[table]}
    """
