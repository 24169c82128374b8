"""Remembers which messages have taken effect."""

import psycopg

from libs.persistence import Connection

_CONSTRAINT = "pk_inbox"


class AlreadyProcessed(Exception):
    """The message took effect before; the transaction that met it again is void."""


async def enter(connection: Connection, consumer: str, message_id: str, company_id: str) -> None:
    """Note the message in the transaction of its effects. Raises ``AlreadyProcessed``, which aborts it."""
    try:
        cursor = await connection.execute(
            "INSERT INTO inbox (consumer, message_id, company_id) VALUES (%s, %s, %s) RETURNING true",
            (consumer, message_id, company_id),
        )
        # In pipeline mode a violation shows only here.
        await cursor.fetchone()
    except psycopg.errors.UniqueViolation as problem:
        if problem.diag.constraint_name != _CONSTRAINT:
            raise
        raise AlreadyProcessed(message_id) from problem


async def knows(connection: Connection, consumer: str, message_id: str, company_id: str) -> bool:
    """Whether the message has taken effect, as far as that company may know."""
    # Rows without a company are older than the column; whose they are is not known any more.
    cursor = await connection.execute(
        "SELECT 1 FROM inbox WHERE consumer = %s AND message_id = %s AND coalesce(company_id, %s) = %s",
        (consumer, message_id, company_id, company_id),
    )
    return await cursor.fetchone() is not None


async def purge(connection: Connection, days: int) -> None:
    """Delete rows of messages that cannot come again: their topics keep them for less than ``days``."""
    await connection.execute("DELETE FROM inbox WHERE received_at < now() - make_interval(days => %s)", (days,))
