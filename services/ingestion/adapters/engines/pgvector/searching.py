"""Searches one index, in one statement on one state of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from psycopg.sql import SQL, Composable, Composed, Literal, Placeholder

from libs.persistence import Connection
from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.engines.bm25 import TermWeights, best_possible, counted, query_weights
from services.ingestion.adapters.engines.pgvector.binary import dense_literal, sparse_literal
from services.ingestion.adapters.engines.pgvector.catalog import Index, required
from services.ingestion.adapters.engines.pgvector.statements import (
    HYBRID,
    KEYWORD,
    KEYWORD_CANDIDATES,
    KEYWORD_CANDIDATES_BY_WORDS,
    SEMANTIC,
    SEMANTIC_CANDIDATES,
)
from services.ingestion.adapters.engines.pgvector.telling_words import Frequencies, TellingWords, telling_words
from services.ingestion.adapters.engines.pgvector.term_levels import numbers_of
from services.ingestion.domain.engines import FileSelection, Hit, Query
from services.ingestion.domain.search import SEMANTIC_SHARE, candidates

# Up to this number, comparing all beats a graph walk that mostly meets other files.
_FEW_CHUNKS = 10_000
_SAMPLE = 3000
# From here on half of the work is more than what starting other processes for it costs.
_MANY_CHUNKS = 4_000


async def search(connection: Connection, analysis: Analysis, index_id: str, query: Query) -> list[Hit]:
    index = await required(connection, index_id)
    words, seen = await _words(connection, analysis, index, query)
    if query.mode == "keyword" and words is None:
        return []
    telling = telling_words(words, seen) if words is not None and index.has_words else None
    async with connection.transaction():
        walk = query.mode != "keyword" and index.has_graph and await _graph_pays(connection, index, query.files)
        await _prepare(connection, index, query, telling, walk=walk)
        hits = await _hits(connection, index, query, words, telling)
        if telling is not None and query.mode == "keyword" and len(hits) < query.top_k:
            # Few chunks have these words: others have only words that do not tell much.
            await _prepare(connection, index, query, None, walk=walk)
            hits = await _hits(connection, index, query, words, None)
        return hits


async def _hits(
    connection: Connection, index: Index, query: Query, words: TermWeights | None, telling: TellingWords | None
) -> list[Hit]:
    statement, parameters = _statement(index, query, words, telling)
    found = await connection.execute(statement, parameters, prepare=False)
    return [_hit(row) for row in await found.fetchall()]


async def _words(
    connection: Connection, analysis: Analysis, index: Index, query: Query
) -> tuple[TermWeights | None, Frequencies]:
    counts = counted(analysis.terms(query.text)) if query.mode != "semantic" else {}
    if not counts:
        return None, Frequencies({}, 0)
    seen = await _frequencies(connection, index, sorted(counts))
    return query_weights(counts, seen.of_terms, seen.chunks), seen


async def _graph_pays(connection: Connection, index: Index, files: FileSelection) -> bool:
    if files.only is None:
        return True
    found = await connection.execute(
        SQL("SELECT count(*) FROM (SELECT FROM {} WHERE file_id = ANY(%s) LIMIT {}) AS selected").format(
            index.table.name, Literal(_FEW_CHUNKS + 1)
        ),
        (list(files.only),),
        prepare=False,
    )
    [[count]] = await found.fetchall()
    return bool(count > _FEW_CHUNKS)


async def _prepare(
    connection: Connection, index: Index, query: Query, telling: TellingWords | None, *, walk: bool
) -> None:
    scored = index.chunks if telling is None else telling.expected
    settings = {
        "hnsw.ef_search": str(min(1000, 2 * candidates(query.top_k))),
        # The graph walk goes on until it has met enough chunks of the selected files.
        "hnsw.iterative_scan": "strict_order",
        # Off leaves bitmap scans for files and words; only the graph is scanned in order.
        "enable_indexscan": "on" if walk else "off",
        # How many chunks have the words is known better here than by the planner's statistics.
        "enable_seqscan": "off" if telling is not None else "on",
    }
    if query.mode == "keyword" and scored >= _MANY_CHUNKS:
        # The planner knows nothing of what comparing a chunk's words costs, and would do all of it in one process. A
        # hybrid search has a part that is better done in one.
        settings |= {"parallel_setup_cost": "0", "parallel_tuple_cost": "0"}
    chosen = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    await connection.execute(SQL("SELECT " + chosen))


def _statement(
    index: Index, query: Query, words: TermWeights | None, telling: TellingWords | None
) -> tuple[Composed, dict[str, Any]]:
    files, parameters = _files(query.files)
    if query.vector is not None:
        parameters["vector"] = dense_literal(query.vector)
    by_words: Composable = KEYWORD_CANDIDATES
    if words is not None:
        parameters |= {"words": sparse_literal(words), "bound": best_possible(words)}
    having: Composable = SQL("true")
    if telling is not None:
        by_words = KEYWORD_CANDIDATES_BY_WORDS
        having, arrays = _having(telling)
        parameters |= arrays
    wanted = {"semantic": SEMANTIC, "keyword": KEYWORD, "hybrid": HYBRID if words is not None else SEMANTIC}
    pieces = {
        "table": index.table.name,
        "files": files,
        "having": having,
        "depth": Literal(candidates(query.top_k)),
        "limit": Literal(query.top_k),
        "share": Literal(SEMANTIC_SHARE),
    }
    statement = wanted[query.mode].format(
        **pieces, by_meaning=SEMANTIC_CANDIDATES.format(**pieces), by_words=SQL(by_words.as_string()).format(**pieces)
    )
    return statement, parameters


def _having(telling: TellingWords) -> tuple[Composable, dict[str, list[int]]]:
    """The condition of chunks with these words, and its parameters."""
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


def _hit(row: Sequence[Any]) -> Hit:
    score = min(max(float(row[0]), 0.0), 1.0)
    return Hit(
        chunk_id=row[1], file_id=row[2], text=row[3], score=score, start=row[4], end=row[5], page=row[6], row=row[7]
    )


async def _frequencies(connection: Connection, index: Index, terms: Sequence[int]) -> Frequencies:
    if index.counted_chunks is None:
        return await _sampled(connection, index, terms)
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


async def _sampled(connection: Connection, index: Index, terms: Sequence[int]) -> Frequencies:
    """Estimates frequencies until the first run has ended."""
    share = min(1.0, _SAMPLE / max(1, index.chunks))
    each = ", ".join(["count(*) FILTER (WHERE weights <#> %s::sparsevec < 0)"] * len(terms))
    statement = "SELECT count(*), " + each + " FROM {} TABLESAMPLE SYSTEM ({})"
    one = np.ones(1, np.float32)
    found = await connection.execute(
        SQL(statement).format(index.table.name, Literal(100 * share)),
        [sparse_literal(TermWeights(np.array([term], np.int32), one)) for term in terms],
        prepare=False,
    )
    [row] = await found.fetchall()
    if not row[0]:
        return Frequencies({}, index.chunks)
    scale = index.chunks / row[0]
    return Frequencies({term: max(1.0, n * scale) for term, n in zip(terms, row[1:], strict=True)}, index.chunks)
