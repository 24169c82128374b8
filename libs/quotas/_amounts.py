"""The amounts that companies have stored. Database triggers count them."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import QuotaExceeded, quota_exceeded
from libs.persistence import Connection, Database
from libs.quotas._settings import CompanyLimits

_USED: Final = """
    SELECT company_id, name, sum(amount)::bigint FROM company_amounts
    WHERE company_id = ANY(%s) AND name = ANY(%s) GROUP BY company_id, name
"""
# The limit keeps the statement from timing out. Concurrent runs skip each other's locks, which prevents deadlocks.
_FOLD: Final = """
    WITH changed AS MATERIALIZED (
        SELECT id, company_id, name FROM company_amounts WHERE NOT folded ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    ), sums AS MATERIALIZED (
        SELECT a.id FROM company_amounts a
        JOIN (SELECT DISTINCT company_id, name FROM changed) c USING (company_id, name)
        WHERE a.folded FOR UPDATE OF a SKIP LOCKED
    ), gone AS (
        DELETE FROM company_amounts a USING (SELECT id FROM changed UNION ALL SELECT id FROM sums) t
        WHERE a.id = t.id RETURNING a.company_id, a.name, a.amount
    ), folded AS (
        INSERT INTO company_amounts (company_id, name, amount, folded)
        SELECT company_id, name, sum(amount), true FROM gone GROUP BY company_id, name HAVING sum(amount) <> 0
    )
    SELECT count(*) FROM gone
"""
_BATCH: Final = 1000
_IDLE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Excess:
    """The amount above a limit (``by``), and the error to raise."""

    by: int
    error: QuotaExceeded


class CompanyAmounts:
    """Reads and checks the amounts that a service counts, by limit.

    Each change has its own row, so that writers never wait for each other. ``fold`` merges the rows. Checks don't lock
    anything, so concurrent transactions can together exceed a limit.
    """

    def __init__(self, database: Database, limits: CompanyLimits, names: Iterable[str]) -> None:
        self._database = database
        self._limits = limits
        self.names = tuple(names)

    async def used(self, company_id: str) -> dict[str, int]:
        rows = await self._database.execute(_USED, ([company_id], list(self.names)))
        return dict.fromkeys(self.names, 0) | {name: amount for _, name, amount in rows}

    async def check(self, connection: Connection, company_id: str, wanted: Mapping[str, int]) -> None:
        """Raises ``QuotaExceeded`` if storing the ``wanted`` amounts would exceed a limit."""
        limits = {name: limit for name in wanted if (limit := self._limits.of(company_id, name)) is not None}
        if not limits:
            return
        cursor = await connection.execute(_USED, ([company_id], list(limits)))
        used = {name: amount for _, name, amount in await cursor.fetchall()}
        for name, limit in limits.items():
            if used.get(name, 0) + wanted[name] > limit:
                raise quota_exceeded(name, limit, used.get(name, 0))

    async def excess(self, connection: Connection, company_ids: Iterable[str], name: str) -> dict[str, Excess]:
        """Returns the excess by company ID. It includes what the transaction has stored so far."""
        limits = {each: limit for each in company_ids if (limit := self._limits.of(each, name)) is not None}
        if not limits:
            return {}
        cursor = await connection.execute(_USED, (list(limits), [name]))
        beyond = {company_id: used - limits[company_id] for company_id, _, used in await cursor.fetchall()}
        return {
            company_id: Excess(by, quota_exceeded(name, limits[company_id], limits[company_id]))
            for company_id, by in beyond.items()
            if by > 0
        }

    async def fold(self) -> bool:
        """Merges the oldest changes. Returns whether there were any."""
        rows = await self._database.execute(_FOLD, (_BATCH,))
        return bool(rows[0][0])

    async def run(self) -> None:
        """Merges changes until cancelled."""
        while True:
            if not await self.fold():
                await asyncio.sleep(_IDLE_SECONDS)
