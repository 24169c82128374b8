"""Workers' leases: one row per worker, on the database's clock."""

from __future__ import annotations

from typing import Final

from libs.persistence import Database
from services.runtime.adapters.postgres.transactions import translated

_RENEW: Final = """
    INSERT INTO workers (id, lease_expires_at)
    VALUES (%(worker)s, clock_timestamp() + make_interval(secs => %(lease)s))
    ON CONFLICT (id) DO UPDATE SET lease_expires_at = EXCLUDED.lease_expires_at
"""
_RELEASE: Final = "DELETE FROM workers WHERE id = %s"


class PostgresLeases:
    """An expired lease that nobody took may be renewed: what others took meanwhile is fenced turn by turn."""

    def __init__(self, database: Database, *, worker_id: str, lease: float) -> None:
        self._database = database
        self._worker_id = worker_id
        self._lease = lease

    async def renew(self) -> None:
        with translated():
            async with self._database.connection() as connection:
                await connection.execute(_RENEW, {"worker": self._worker_id, "lease": self._lease})

    async def release(self) -> None:
        with translated():
            async with self._database.connection() as connection:
                await connection.execute(_RELEASE, (self._worker_id,))
