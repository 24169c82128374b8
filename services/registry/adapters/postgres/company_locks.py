"""Locks by which limits of a company hold when two things are made at once."""

from libs.persistence import Connection


async def lock_company(connection: Connection, table: str, company_id: str) -> None:
    """Until the end of the transaction: without it two creations would both see a count below the limit."""
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{table} of {company_id}",))
