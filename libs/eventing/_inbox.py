"""The inbox, which records processed messages so that no message is processed twice."""

from collections.abc import Collection
from dataclasses import dataclass

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.persistence import Connection, fetch_value

# ON CONFLICT avoids an error, which PostgreSQL would log for each redelivery. The INSERT waits for an open transaction
# that inserts the same message.
_ENTER = """
    INSERT INTO inbox (consumer, message_id, company_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING true
"""
_ENTER_ALL = """
    INSERT INTO inbox (consumer, message_id, company_id)
    SELECT %s, * FROM unnest(%s::text[], %s::text[]) AS given (id, company) ORDER BY id
    ON CONFLICT DO NOTHING RETURNING true
"""


class AlreadyProcessed(Exception):
    """The message has already taken effect. Roll back the current transaction."""


async def enter(connection: Connection, consumer: str, message_id: str, company_id: str) -> None:
    """Records a message as processed, in the same transaction as its effects. Raises ``AlreadyProcessed``."""
    if await fetch_value(connection, _ENTER, (consumer, message_id, company_id)) is None:
        raise AlreadyProcessed(message_id)


@dataclass(frozen=True, slots=True)
class PendingEntries:
    """Inbox rows whose insertion is pending, since a pipeline returns results later."""

    count: int
    noted: AsyncCursor[TupleRow]

    async def check(self) -> None:
        """Raises ``AlreadyProcessed`` if any of the messages has already taken effect."""
        if len(await self.noted.fetchall()) != self.count:
            raise AlreadyProcessed("one of a batch")


async def enter_all(connection: Connection, consumer: str, messages: Collection[tuple[str, str]]) -> PendingEntries:
    """Records messages as processed, in the same transaction as their effects.

    Each item of ``messages`` is a pair ``(message_id, company_id)``.
    """
    ids, companies = [message_id for message_id, _ in messages], [company_id for _, company_id in messages]
    return PendingEntries(len(ids), await connection.execute(_ENTER_ALL, (consumer, ids, companies)))


async def knows(connection: Connection, consumer: str, message_id: str, company_id: str) -> bool:
    """Returns whether the company's message has taken effect."""
    query = "SELECT 1 FROM inbox WHERE consumer = %s AND message_id = %s AND company_id = %s"
    return await fetch_value(connection, query, (consumer, message_id, company_id)) is not None
