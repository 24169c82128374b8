"""Creates the timeline's daily partitions (UTC) in advance, and drops them after the retention period."""

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final

import psycopg
import structlog

from libs.contracts.errors import StoreUnavailable
from libs.persistence import Connection, Database, TaskLease

_log = structlog.get_logger("timeline.partitions")
_AHEAD: Final = 3
_NAME: Final = "timeline_events_{:%Y%m%d}"
_DAY: Final = timedelta(days=1)
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('aes.timeline.partitions'))"
# Longer than the statement timeout.
_LEASE_SECONDS: Final = 60.0
_KNOWN_ROWS: Final = "SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)"
_LARGE: Final = 10_000
_PARTITION: Final = re.compile(r"timeline_events_[0-9]{8}")
# Matches names here: an expression would be evaluated for every index of every partition, which takes milliseconds.
_EXISTING: Final = """
    SELECT c.relname, i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false)
    FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
      AND c.relname ^@ 'timeline_events_'
    ORDER BY c.relname
"""


class PostgresTimelinePartitions:
    """Creates and drops partitions. Several processes may call any method concurrently."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._dropping = TaskLease(database, "timeline.partitions", _LEASE_SECONDS)

    async def keep(self, today: date, days: int) -> None:
        """Creates partitions in advance, and drops those older than ``days``. Logs a failure of the database."""
        try:
            await self.make(today)
            await self.drop_before(today - days * _DAY)
        except StoreUnavailable as problem:
            # A long read may have blocked a partition. There's time to retry, because partitions exist days in advance.
            _log.warning("timeline.not_maintained", problem=repr(problem))

    async def make(self, today: date) -> None:
        """Creates missing partitions for yesterday, today and the next few days.

        Tables are created and then attached, because creating a partition directly would block readers and writers.
        """
        wanted = [today + number * _DAY for number in range(-1, _AHEAD + 1)]
        async with self._database.transaction() as connection:
            await connection.execute(_LOCK)
            existing = {name for name, *_ in await _existing(connection)}
            for day in wanted:
                if (name := _NAME.format(day)) not in existing:
                    await _attach(connection, name, day)
                    _log.info("timeline.partition_made", day=str(day))

    async def analyze(self, day: date) -> None:
        """Analyzes the day's partition, unless its statistics already show that it's large. Failures are ignored."""
        name = _NAME.format(day)
        try:
            if await self._database.value(_KNOWN_ROWS, (name,)) < _LARGE:
                await self._database.execute(f"ANALYZE {name}")
        except (psycopg.Error, StoreUnavailable) as problem:
            _log.warning("timeline.not_analyzed", day=str(day), problem=str(problem))

    async def drop_before(self, day: date) -> None:
        """Drops the partitions of all days before ``day``."""
        while await self._dropping.take():
            async with self._database.connection() as connection:
                old = [each for each in await _existing(connection) if _day(each[0]) < day]
                if not old:
                    break
                name, attached, pending = old[0]
                await _drop(connection, name, attached=attached, pending=pending)
                _log.info("timeline.partition_dropped", partition=name)
        await self._dropping.release()


def _day(name: str) -> date:
    return datetime.strptime(name[-8:], "%Y%m%d").date()


async def _existing(connection: Connection) -> Sequence[tuple[str, bool, bool]]:
    """Returns each partition's name, whether it's attached, and whether it's being detached."""
    rows = await (await connection.execute(_EXISTING)).fetchall()
    return [(name, attached, pending) for name, attached, pending in rows if _PARTITION.fullmatch(name)]


async def _attach(connection: Connection, name: str, day: date) -> None:
    await connection.execute(f"CREATE TABLE {name} (LIKE timeline_events INCLUDING DEFAULTS)".encode())
    bounds = f"FOR VALUES FROM ('{day}') TO ('{day + _DAY}')"
    await connection.execute(f"ALTER TABLE timeline_events ATTACH PARTITION {name} {bounds}".encode())


async def _drop(connection: Connection, name: str, *, attached: bool, pending: bool) -> None:
    if attached:
        # CONCURRENTLY waits for running statements without blocking others. FINALIZE completes it after a crash or
        # timeout.
        how = "FINALIZE" if pending else "CONCURRENTLY"
        await connection.execute(f"ALTER TABLE timeline_events DETACH PARTITION {name} {how}".encode())
    await connection.execute(f"DROP TABLE {name}".encode())
