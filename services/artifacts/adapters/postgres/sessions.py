"""Stores sessions in PostgreSQL."""

from libs.persistence import Database
from services.artifacts.domain.artifacts import KnownSession

_GET = "SELECT id, company_id, owner_id, deleted_at IS NOT NULL FROM sessions WHERE id = %s"


class PostgresSessions:
    """The sessions known to this service, including deleted ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, session_id: str) -> KnownSession | None:
        rows = await self._database.execute(_GET, (session_id,))
        return KnownSession(*rows[0]) if rows else None

    async def remember(self, session: KnownSession) -> KnownSession:
        """Stores the session. Returns the stored session, which may have been deleted in the meantime."""
        async with self._database.connection() as connection:
            await connection.execute(
                "INSERT INTO sessions (id, company_id, owner_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (session.id, session.company_id, session.owner_id),
            )
            [row] = await (await connection.execute(_GET, (session.id,))).fetchall()
        return KnownSession(*row)
