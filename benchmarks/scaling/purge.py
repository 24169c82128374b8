"""Times the removal of expired rows, by the code that the services run."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from statistics import median
from typing import Final

from benchmarks.scaling.rows import EVENTS_OF_A_TURN, FIRST_EXPIRED, TURNS_OF_A_SESSION, Expired, Stores
from libs.eventing import EntityTable, Expiry, Outbox
from libs.eventing._retention import Retention
from libs.persistence import Database
from libs.quotas import CompanyAmounts, CompanyLimits
from services.gateway.adapters.postgres import expiry as gateway
from services.gateway.adapters.postgres.timeline_partitions import PostgresTimelinePartitions
from services.runtime.adapters.postgres import expiry as runtime
from services.runtime.adapters.postgres.retention import PostgresRetentionReads, PostgresRetentionWriter
from services.runtime.adapters.postgres.session_writer import PostgresSessionWriter
from services.runtime.domain.spending import NoPrices
from services.runtime.use_cases.retention import SessionRetention
from services.runtime.use_cases.sessions.expire import RemoveOldSessions

_ROWS: Final = 5_000
_SESSIONS: Final = 300
_SESSIONS_OF_A_DAY: Final = 100
_DAYS_DROPPED: Final = 5
_TOMBSTONE_DAYS: Final = 35
_RETENTION_DAYS: Final = 35
_AGE: Final = timedelta(days=45)


class PurgeTimes:
    """Milliseconds of one removal by what was removed, in a system of a company that is measured.

    Keeps one ``Retention`` per service, as the services do, whose passes begin after earlier ones.
    """

    def __init__(self, stores: Stores, company_id: str, owner_id: str) -> None:
        self.stores = stores
        self.company_id = company_id
        self.owner_id = owner_id
        self._numbers = count()
        self._runtime = _retention(runtime.EXPIRIES, runtime.ENTITIES)
        self._gateway = _retention(gateway.EXPIRIES, gateway.ENTITIES)

    async def measure(self) -> dict[str, float]:
        """Adds expired rows and has them removed."""
        number = next(self._numbers)
        expired = Expired(self.stores, self.company_id, self.owner_id, f"x{number:04}-", FIRST_EXPIRED + number * _ROWS)
        async with _opened(self.stores.runtime) as database, _opened(self.stores.gateway) as gateway_database:
            expired.add_sessions(_SESSIONS, _AGE)
            sessions = await self._remove_sessions(database)
            purge = partial(_purge, database, self._runtime)
            expired.add_outbox_rows(_ROWS, _AGE)
            outbox = await purge()
            expired.add_inbox_rows(_ROWS, _AGE)
            inbox = await purge()
            expired.add_keys(_ROWS, _AGE)
            keys = await _purge(gateway_database, self._gateway)
            day = await _drop_days(gateway_database, expired)
        events = _SESSIONS_OF_A_DAY * TURNS_OF_A_SESSION * EVENTS_OF_A_TURN
        return {
            f"purge of 100 sessions of {TURNS_OF_A_SESSION} turns": sessions,
            f"purge of {_ROWS:,} outbox rows": outbox,
            f"purge of {_ROWS:,} inbox rows": inbox,
            f"purge of {_ROWS:,} idempotency keys": keys,
            f"purge of a day of {events:,} events": day,
        }

    async def _remove_sessions(self, database: Database) -> float:
        """Median of the batches."""
        removed: list[int] = []
        writer = partial(
            PostgresSessionWriter,
            prices=NoPrices(),
            amounts=CompanyAmounts(database, CompanyLimits({}, {}), ["sessions"]),
        )
        retention = SessionRetention(PostgresRetentionWriter, PostgresRetentionReads(database), _RETENTION_DAYS)
        remove = RemoveOldSessions(Outbox(database).transaction, writer, retention, on_removed=removed.append)
        times = []
        goes_on = True
        while goes_on:
            before = sum(removed)
            took, goes_on = await _timed(remove)
            if sum(removed) > before:
                times.append(took)
        return median(times)


def _retention(expiries: Sequence[Expiry], entities: Sequence[EntityTable]) -> Retention:
    retention = Retention()
    for expiry in expiries:
        retention.add(expiry, _TOMBSTONE_DAYS)
    retention.know(*entities)
    return retention


async def _purge(database: Database, retention: Retention) -> float:
    """One pass over the tables of a service, in as many slices of time as it takes."""
    async with database.connection() as connection:
        began = time.perf_counter()
        while await retention.keep(connection):
            pass
        return 1000 * (time.perf_counter() - began)


async def _drop_days(database: Database, expired: Expired) -> float:
    """Mean of some days with the same number of events each."""
    partitions = PostgresTimelinePartitions(database)
    last = (datetime.now(UTC) - _AGE).date()
    # The day before and three days after are made with it.
    await partitions.make(last - timedelta(days=_DAYS_DROPPED - 2))
    for number in range(_DAYS_DROPPED):
        expired.add_events(_SESSIONS_OF_A_DAY, last - timedelta(days=number))
    took, _ = await _timed(partial(partitions.drop_before, last + timedelta(days=1)))
    return took / _DAYS_DROPPED


async def _timed(action: Callable[[], Awaitable[bool | None]]) -> tuple[float, bool]:
    began = time.perf_counter()
    found = await action()
    return 1000 * (time.perf_counter() - began), bool(found)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Database]:
    database = Database(url, name="bench-purge", plan_once=True)
    await database.open()
    try:
        yield database
    finally:
        await database.close()
