"""Sessions that artifacts belong to, in PostgreSQL."""

from libs.persistence import Database
from services.artifacts.domain.artifacts import KnownSession

_GET = "SELECT id, company_id, owner_id, deleted_at IS NOT NULL FROM sessions WHERE id = %s"


class PostgresSessions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, session_id: str) -> KnownSession | None:
        async with self._database.connection() as connection:
            row = await (await connection.execute(_GET, (session_id,))).fetchone()
        return None if row is None else KnownSession(*row)

    async def remember(self, session: KnownSession) -> KnownSession:
        async with self._database.connection() as connection:
            await connection.execute(
                "INSERT INTO sessions (id, company_id, owner_id) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (session.id, session.company_id, session.owner_id),
            )
            row = await (await connection.execute(_GET, (session.id,))).fetchone()
        assert row is not None
        return KnownSession(*row)
