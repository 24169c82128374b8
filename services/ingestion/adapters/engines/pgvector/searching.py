"""Searches an index in PostgreSQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg.sql import NULL, SQL, Composable, Composed, Literal, Placeholder

from libs.persistence import Connection
from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.engines.bm25 import TermWeights, counted, query_weights, relative
from services.ingestion.adapters.engines.pgvector.binary import dense_literal, sparse_literal
from services.ingestion.adapters.engines.pgvector.catalog import Index
from services.ingestion.adapters.engines.pgvector.selective_words import (
    Frequencies,
    SelectiveWords,
    numbers_of,
    selective_words,
)
from services.ingestion.domain.engines import Candidate, ChunkKey, FileSelection, Hit, Query

# Up to this many chunks, comparing them all is faster than a graph walk, which mostly visits other files' chunks.
_FEW_CHUNKS: Final = 10_000
_LEAST_WALK: Final = 200
_MOST_WALK: Final = 1000
# With at least this many chunks, a parallel scan saves more time than it takes to start its processes.
_MANY_CHUNKS: Final = 4_000
# A candidate's location in the table (ctid) identifies it, but only within one statement.
_BY_MEANING: Final = SQL(
    """
    SELECT ctid AS place FROM {table} WHERE {files}
    ORDER BY embedding <#> %(vector)s::halfvec LIMIT {depth}
    """
)

_BY_WORDS: Final = SQL(
    """
    SELECT place FROM (
        SELECT ctid AS place, -(weights <#> %(words)s::sparsevec) AS score, file_id, position FROM {table}
        WHERE {having} AND {files} ORDER BY score DESC, file_id, position LIMIT {depth}
    ) AS best WHERE score > 0
    """
)

_COSINE: Final = SQL("-(embedding <#> %(vector)s::halfvec)")
_WORDS: Final = SQL("-(weights <#> %(words)s::sparsevec)")

# Every candidate gets both scores, whichever search found it.
_CANDIDATES: Final = SQL(
    """
    WITH {ways}, found AS ({places})
    SELECT file_id, id, position, {cosine}, {words} FROM found JOIN {table} AS passages ON passages.ctid = place
    """
)

_HITS: Final = SQL(
    """
    SELECT file_id, id, content, start_offset, end_offset, page, row_number
    FROM {table} JOIN unnest(%s::text[], %s::text[]) AS wanted (file_id, id) USING (file_id, id)
    """
)


@dataclass(frozen=True, slots=True)
class PgvectorSearching:
    connection: Connection
    index: Index
    analysis: Analysis

    async def candidates(self, query: Query) -> list[Candidate]:
        counts = counted(self.analysis.terms(query.text)) if query.mode != "semantic" else {}
        if query.mode == "keyword" and not counts:
            return []
        words, telling = None, None
        if counts:
            seen = await _frequencies(self.connection, self.index, sorted(counts))
            words = query_weights(counts, seen.of_terms, seen.chunks)
            telling = selective_words(words, seen) if self.index.has_words else None
        async with self.connection.transaction():
            found = await self._found(query, words, telling)
            if telling is not None and query.mode == "keyword" and len(found) < query.top_k:
                # If too few chunks contain these words, also consider chunks with only uninformative words.
                found = await self._found(query, words, None)
        number = sum(counts.values())
        return [
            Candidate((file_id, chunk_id), position, cosine, None if score is None else relative(score, number))
            for file_id, chunk_id, position, cosine, score in found
        ]

    async def hits(self, scores: Mapping[ChunkKey, float]) -> list[Hit]:
        keys = [[key[part] for key in scores] for part in (0, 1)]
        rows = await self.connection.execute(_HITS.format(table=self.index.table.name), keys, prepare=False)
        found = {(row[0], row[1]): row[2:] for row in await rows.fetchall()}
        return [
            Hit(chunk_id, file_id, text, score, start, end, page, row)
            for (file_id, chunk_id), score in scores.items()
            if (file_id, chunk_id) in found
            for text, start, end, page, row in [found[file_id, chunk_id]]
        ]

    async def _found(
        self, query: Query, words: TermWeights | None, telling: SelectiveWords | None
    ) -> Sequence[Sequence[Any]]:
        walk = query.mode != "keyword" and self.index.has_graph and await self._graph_pays(query.files)
        await self._prepare(query, telling, walk=walk)
        statement, parameters = _statement(self.index, query, words, telling)
        rows = await self.connection.execute(statement, parameters, prepare=False)
        return await rows.fetchall()

    async def _graph_pays(self, files: FileSelection) -> bool:
        if files.only is None:
            return True
        found = await self.connection.execute(
            SQL("SELECT count(*) FROM (SELECT FROM {} WHERE file_id = ANY(%s) LIMIT {}) AS selected").format(
                self.index.table.name, Literal(_FEW_CHUNKS + 1)
            ),
            (list(files.only),),
            prepare=False,
        )
        [[count]] = await found.fetchall()
        return bool(count > _FEW_CHUNKS)

    async def _prepare(self, query: Query, telling: SelectiveWords | None, *, walk: bool) -> None:
        scored = self.index.chunks if telling is None else telling.expected
        settings = {
            "hnsw.ef_search": str(min(_MOST_WALK, max(_LEAST_WALK, 6 * query.top_k))),
            # The graph walk continues until it has found enough chunks of the selected files.
            "hnsw.iterative_scan": "strict_order",
            # Only the graph needs an index scan. Filters by file and word use bitmap scans.
            "enable_indexscan": "on" if walk else "off",
            # The expected number of matches is more accurate than the planner's statistics.
            "enable_seqscan": "off" if telling is not None else "on",
        }
        if query.mode == "keyword" and scored >= _MANY_CHUNKS:
            # The planner doesn't know how expensive it is to compare a chunk's words and wouldn't parallelize. A hybrid
            # search keeps the defaults, since one of its parts is faster in a single process.
            settings |= {"parallel_setup_cost": "0", "parallel_tuple_cost": "0"}
        chosen = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        await self.connection.execute(SQL("SELECT " + chosen))


def _statement(
    index: Index, query: Query, words: TermWeights | None, telling: SelectiveWords | None
) -> tuple[Composed, dict[str, Any]]:
    files, parameters = _files(query.files)
    having: Composable = SQL("true")
    if telling is not None:
        having, arrays = _having(telling)
        parameters |= arrays
    ways = {}
    if query.mode != "keyword":
        assert query.vector is not None
        ways["by_meaning"] = _BY_MEANING
        parameters["vector"] = dense_literal(query.vector)
    if words is not None:
        ways["by_words"] = _BY_WORDS
        parameters["words"] = sparse_literal(words)
    pieces = {"table": index.table.name, "files": files, "having": having, "depth": Literal(query.depth)}
    materialized = (
        SQL("{} AS MATERIALIZED ({})").format(SQL(name), way.format(**pieces)) for name, way in ways.items()
    )
    statement = _CANDIDATES.format(
        ways=SQL(", ").join(materialized),
        places=SQL(" UNION ").join(SQL("SELECT place FROM {}").format(SQL(name)) for name in ways),
        cosine=_COSINE if "by_meaning" in ways else NULL,
        words=_WORDS if "by_words" in ways else NULL,
        table=index.table.name,
    )
    return statement, parameters


def _having(telling: SelectiveWords) -> tuple[Composable, dict[str, list[int]]]:
    sets = {"alone": telling.alone} if telling.alone else {}
    sets |= {f"together{number}": combination for number, combination in enumerate(telling.together)}
    operators = ("&&" if name == "alone" else "@>" for name in sets)
    conditions = (
        SQL("terms {} {}::integer[]").format(SQL(operator), Placeholder(name))
        for name, operator in zip(sets, operators, strict=True)
    )
    return SQL("({})").format(SQL(" OR ").join(conditions)), sets


def _files(selection: FileSelection) -> tuple[Composable, dict[str, Any]]:
    conditions, parameters = ["true"], {}
    if selection.only is not None:
        conditions.append("file_id = ANY(%(only)s)")
        parameters["only"] = list(selection.only - selection.without)
    elif selection.without:
        conditions.append("file_id <> ALL(%(without)s)")
        parameters["without"] = list(selection.without)
    return SQL(" AND ".join(conditions)), parameters


async def _frequencies(connection: Connection, index: Index, terms: Sequence[int]) -> Frequencies:
    if index.counted_chunks is None:
        return Frequencies({}, index.chunks)
    found = await connection.execute(
        """
        SELECT t.term, t.passages FROM search.indexes i
        JOIN search.term_frequencies t ON t.index_number = i.number AND t.version = i.version
        WHERE i.id = %s AND t.term = ANY(%s)
        """,
        (index.id, numbers_of(terms)),
    )
    of_terms = {row[0]: float(row[1]) for row in await found.fetchall()}
    return Frequencies(of_terms, index.counted_chunks, have_levels=True)
