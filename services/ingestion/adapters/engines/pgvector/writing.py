"""Writes passages in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.sql import SQL

from libs.persistence import Connection
from services.ingestion.adapters.engines.bm25 import passage_weights
from services.ingestion.adapters.engines.pgvector.binary import COLUMNS, HEADER, TRAILER, row_of
from services.ingestion.adapters.engines.pgvector.catalogue import Index, required
from services.ingestion.adapters.engines.pgvector.growth import make_room
from services.ingestion.adapters.engines.terms import Terms
from services.ingestion.domain.documents import TermCounts
from services.ingestion.domain.engines import Passage

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Prepared:
    passage: Passage
    terms: TermCounts

    @property
    def key(self) -> tuple[str, str]:
        return self.passage.file_id, self.passage.chunk_id


class Writing:
    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    def prepare(self, passages: Sequence[Passage]) -> list[Prepared]:
        """What costs processor time; a passage given twice is taken once."""
        prepared: dict[tuple[str, str], Prepared] = {}
        for passage in passages:
            each = Prepared(passage, passage.terms or self._terms.counts(passage.text))
            prepared.setdefault(each.key, each)
        return list(prepared.values())

    async def write(self, connection: Connection, index_id: str, prepared: Sequence[Prepared]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            index = await required(connection, index_id)
            await make_room(connection, index, len(prepared))
            try:
                async with connection.transaction():
                    await _write(connection, index, prepared)
                return
            except psycopg.errors.UniqueViolation:
                # Someone else wrote one of these passages meanwhile; it is left out when looked for again.
                if attempt == _ATTEMPTS:
                    raise


async def _write(connection: Connection, index: Index, prepared: Sequence[Prepared]) -> None:
    if any(each.passage.vector.shape != (index.table.dimensions,) for each in prepared):
        raise ValueError(f"the index takes vectors of {index.table.dimensions} dimensions")
    found = await connection.execute(
        SQL("SELECT file_id, id FROM {} WHERE file_id = ANY(%s)").format(index.table.name),
        (list({each.passage.file_id for each in prepared}),),
        prepare=False,
    )
    present = set(await found.fetchall())
    new = [each for each in prepared if each.key not in present]
    if not new:
        return
    terms = sum(each.terms.length for each in new)
    average = index.average_length(len(new), terms)
    rows = [row_of(e.passage, passage_weights(e.terms, average), e.terms.length, average) for e in new]
    statement = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(index.table.name, SQL(COLUMNS))
    async with connection.cursor().copy(statement) as copy:
        await copy.write(b"".join((HEADER, *rows, TRAILER)))
    # At the very end: other writers wait for this row from here to the commit.
    await connection.execute(
        "UPDATE search.indexes SET passages = passages + %s, terms = terms + %s WHERE id = %s",
        (len(new), terms, index.id),
    )
