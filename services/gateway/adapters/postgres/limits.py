"""Stores the limits that all gateways share in PostgreSQL."""

from typing import Final

from libs.persistence import Database, as_json
from services.gateway.domain.limits import STREAMS, Grant, HeldSlots

_AVAILABLE: Final = """
    least(%(limit)s, r.tokens + %(limit)s / 60.0 * greatest(0, extract(epoch FROM now() - r.refilled_at)))
"""
# The column ``granted`` only exists so that RETURNING can report the grant.
_TAKE: Final = f"""
    INSERT INTO rates AS r (holder, name, tokens, granted, refilled_at)
    VALUES (%(holder)s, %(name)s, %(limit)s - least(%(wanted)s, %(limit)s), least(%(wanted)s, %(limit)s), now())
    ON CONFLICT (holder, name) DO UPDATE SET
        granted = least(%(wanted)s, floor({_AVAILABLE})),
        tokens = {_AVAILABLE} - least(%(wanted)s, floor({_AVAILABLE})),
        refilled_at = greatest(now(), r.refilled_at)
    RETURNING granted::bigint, tokens::float8
"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('company_streams/' || %s, 0))"
_SLOT_SECONDS: Final = 30
_HOLD: Final = f"""
    WITH others AS (
        SELECT coalesce(sum(places), 0)::bigint AS places FROM company_streams
        WHERE company_id = %(company)s AND gateway_id <> %(gateway)s AND expires_at > now()
    )
    INSERT INTO company_streams AS s (company_id, gateway_id, places, expires_at)
    SELECT %(company)s, %(gateway)s, greatest(0, least(%(wanted)s, %(limit)s - places)),
           now() + interval '{_SLOT_SECONDS} s'
    FROM others
    ON CONFLICT (company_id, gateway_id) DO UPDATE SET places = excluded.places, expires_at = excluded.expires_at
    RETURNING places, (SELECT places FROM others)
"""
_RENEW: Final = f"""
    INSERT INTO company_streams AS s (company_id, gateway_id, places, expires_at)
    SELECT company_id, %(gateway)s, places, now() + interval '{_SLOT_SECONDS} s'
    FROM json_to_recordset(%(held)s) AS g (company_id text, places integer) ORDER BY company_id
    ON CONFLICT (company_id, gateway_id) DO UPDATE SET places = excluded.places, expires_at = excluded.expires_at
"""
_USED: Final = """
    SELECT name, ceil(limit_ - least(limit_,
        tokens + limit_ / 60.0 * greatest(0, extract(epoch FROM now() - refilled_at))))::bigint
    FROM rates r JOIN json_to_recordset(%(rates)s) AS g (rate text, limit_ bigint) ON g.rate = r.name
    WHERE holder = %(company)s
    UNION ALL
    SELECT %(streams)s, coalesce(sum(places), 0)::bigint FROM company_streams
    WHERE company_id = %(company)s AND expires_at > now()
"""
# A bucket unused for two minutes is full, so it doesn't need its row.
_PURGE: Final = (
    "DELETE FROM rates WHERE refilled_at < now() - interval '2 min'",
    "DELETE FROM company_streams WHERE expires_at < now() - interval '2 min'",
)


class PostgresSharedLimits:
    def __init__(self, database: Database, *, gateway_id: str) -> None:
        self._database = database
        self._gateway_id = gateway_id

    async def take_tokens(self, holder: str, name: str, wanted: int, per_minute: int) -> Grant:
        parameters = {"holder": holder, "name": name, "wanted": wanted, "limit": per_minute}
        [(granted, left)] = await self._database.execute(_TAKE, parameters)
        return Grant(granted, left)

    async def hold_slots(self, company_id: str, wanted: int, limit: int) -> HeldSlots:
        parameters = {"company": company_id, "gateway": self._gateway_id, "wanted": wanted, "limit": limit}
        async with self._database.transaction() as connection:
            # A separate statement, so that the next one's snapshot includes the slots that other gateways have taken.
            await connection.execute(_LOCK, (company_id,))
            row = await (await connection.execute(_HOLD, parameters)).fetchone()
        assert row is not None
        return HeldSlots(*row)

    async def renew_slots(self, held: dict[str, int]) -> None:
        if held:
            rows = [{"company_id": company_id, "places": slots} for company_id, slots in held.items()]
            await self._database.execute(_RENEW, {"gateway": self._gateway_id, "held": as_json(rows)})

    async def used(self, company_id: str, per_minute: dict[str, int]) -> dict[str, int]:
        rates = [{"rate": name, "limit_": limit} for name, limit in per_minute.items()]
        parameters = {"company": company_id, "rates": as_json(rates), "streams": STREAMS}
        rows = await self._database.execute(_USED, parameters)
        return dict.fromkeys(per_minute, 0) | dict(rows)

    async def purge(self) -> None:
        """Deletes the records of full buckets and expired slots."""
        for statement in _PURGE:
            await self._database.execute(statement)
