"""Rows about ended entities: tombstones, and the numbers of their events."""

from dataclasses import dataclass
from typing import Final

from libs.persistence import Connection, fetch_value

# The index of ``since`` has the condition, too. A row that changes meanwhile is left to the next time.
_DELETE: Final = """
    WITH gone AS (
        DELETE FROM {table} t WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM {table} t WHERE {since} < now() - make_interval(days => %s) AND {condition}
            ORDER BY {since} LIMIT %s))
        RETURNING {id} AS id
    ), numbers AS (
        DELETE FROM event_sequences WHERE subject = ANY(ARRAY(SELECT id FROM gone))
    )
    SELECT count(*) FROM gone
"""


@dataclass(frozen=True, slots=True)
class Expiry:
    """Rows of a table that go some days after the time in the column ``since``, oldest first.

    The table's ``id`` is the subject of events about it, whose numbers go with the row. ``condition`` is SQL about the
    row ``t``; what does not fulfil it stays.
    """

    table: str
    id: str
    since: str
    condition: str = "true"

    async def purge(self, connection: Connection, days: int, *, limit: int) -> int:
        """Deletes a batch; returns how many rows it had."""
        statement = _DELETE.format(table=self.table, id=self.id, since=self.since, condition=self.condition)
        deleted: int = await fetch_value(connection, statement, (days, limit))
        return deleted
