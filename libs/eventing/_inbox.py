"""Inbox: the messages that have taken effect."""

from collections.abc import Collection
from dataclasses import dataclass

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.persistence import Connection, fetch_value

# Without a conflict as an error: PostgreSQL would log each redelivery. A transaction under way with the same message is
# waited for.
_ENTER = """
    INSERT INTO inbox (consumer, message_id, company_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING RETURNING true
"""
_ENTER_ALL = """
    INSERT INTO inbox (consumer, message_id, company_id)
    SELECT %s, * FROM unnest(%s::text[], %s::text[]) AS given (id, company) ORDER BY id
    ON CONFLICT DO NOTHING RETURNING true
"""


class AlreadyProcessed(Exception):
    """The message took effect before. It must end the transaction that met it again."""


async def enter(connection: Connection, consumer: str, message_id: str, company_id: str) -> None:
    """Note the message in the transaction of its effects. Raises ``AlreadyProcessed``."""
    if await fetch_value(connection, _ENTER, (consumer, message_id, company_id)) is None:
        raise AlreadyProcessed(message_id)


@dataclass(frozen=True, slots=True)
class Entry:
    """Messages whose note has been sent to the database; in a pipeline the answer comes later."""

    count: int
    noted: AsyncCursor[TupleRow]

    async def check(self) -> None:
        """Raises ``AlreadyProcessed`` when one of them took effect before."""
        if len(await self.noted.fetchall()) != self.count:
            raise AlreadyProcessed("one of a batch")


async def enter_all(connection: Connection, consumer: str, messages: Collection[tuple[str, str]]) -> Entry:
    """Like ``enter``, for messages of a batch: pairs of their ids and companies."""
    ids, companies = [message_id for message_id, _ in messages], [company_id for _, company_id in messages]
    return Entry(len(ids), await connection.execute(_ENTER_ALL, (consumer, ids, companies)))


async def knows(connection: Connection, consumer: str, message_id: str, company_id: str) -> bool:
    """Whether the message has taken effect, as far as that company may know."""
    query = "SELECT 1 FROM inbox WHERE consumer = %s AND message_id = %s AND company_id = %s"
    return await fetch_value(connection, query, (consumer, message_id, company_id)) is not None
