"""Sessions: those met before in PostgreSQL, the others asked of the service that owns them."""

import orjson

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.persistence import Database
from libs.service_defaults import UpstreamClient
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


class RuntimeSessions:
    def __init__(self, calls: UpstreamClient) -> None:
        self._calls = calls

    async def session(self, session_id: str, caller: Identity) -> KnownSession | None:
        answer = await self._calls.get("runtime", f"/internal/sessions/{session_id}", caller)
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise ServiceUnavailable(f"the runtime service answered {answer.status}", retry_after=2)
        found = orjson.loads(answer.body)
        return KnownSession(session_id, caller.company_id, found["owner_id"], deleted=found["status"] != "active")
