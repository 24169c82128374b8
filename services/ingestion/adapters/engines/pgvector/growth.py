"""Large additions to an index that is complete: to build graph and inverted index anew costs a tenth of growing them.

Measured: 90,000 passages added one by one to a graph of 10,000 take four minutes, a graph of 100,000 built at once
half of one. Until then searches compare with every passage.
"""

from __future__ import annotations

from typing import Final

from psycopg.sql import SQL, Identifier

from libs.persistence import Connection
from services.ingestion.adapters.engines.pgvector.catalogue import Index

# What was added one by one until then has cost about as much as building will.
_SHARE: Final = 0.1
_LEAST: Final = 1000


async def make_room(connection: Connection, index: Index, more: int) -> None:
    """Before ``more`` passages are added: take away what `finish` will build anew, once much has been added.

    The caller's transaction must not hold a lock on the index's table yet.
    """
    counted = index.counted_passages or 0
    added = index.passages + more - counted
    if (index.has_graph or index.has_words) and added > max(_LEAST, _SHARE * counted):
        names = (Identifier("search", name) for name in (index.table.graph_name, index.table.words_name))
        await connection.execute(SQL("DROP INDEX IF EXISTS {}, {}").format(*names), prepare=False)
