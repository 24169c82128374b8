"""Tells by locks, which PostgreSQL frees when a process ends, who of a service lives; reclaims the work of others."""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Protocol

import psycopg
import structlog
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from libs.persistence._errors import is_outage
from libs.retry import RetryPolicy

_log = structlog.get_logger("database.presence")
_LOCK_CLASS: Final = 7_110_024
# Together with the second for which a lock has to be missing: two.
_LOOK_SECONDS: Final = 1.0
_FORGET_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 5.0
# Well below the second after which the others take a missing lock for the end of its process.
_RECONNECT: Final = RetryPolicy(first=0.1, longest=0.2)
# All processes of the service that hold their lock, and which of these this very connection holds. It reads the
# function that the view pg_locks is made of: with the view it takes twice as long.
_LOOK: Final = """
    SELECT l.objid::bigint, l.pid = pg_backend_pid() FROM pg_lock_status() l
    WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objsubid = 2 AND l.granted AND l.database = %s
"""
# Asked once: it takes more than half of the time of a look.
_DATABASE: Final = "SELECT oid::bigint, pg_backend_pid() FROM pg_database WHERE datname = current_database()"
# Both sides notice within some ten seconds that the other's machine is gone.
_OPTIONS: Final[dict[str, Any]] = {
    "autocommit": True,
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "options": "-c statement_timeout=5000 -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2"
    " -c tcp_keepalives_count=3",
}


class Attendance:
    """Decides which processes are gone from the checks between ``begin`` and ``end``. Times are seconds of one clock.

    ``grace``: time for which a lock is missing before its process is gone.
    """

    def __init__(self, *, grace: float) -> None:
        self._grace = grace
        self.gone: frozenset[int] = frozenset()
        self._trusts_from = float("inf")
        self.present: frozenset[int] = frozenset()
        self._absent_since: dict[int, float] = {}

    def begin(self, trusts_from: float) -> None:
        """Judges from then on, by what is seen from now on."""
        self._trusts_from = trusts_from
        self.present = self.gone = frozenset()
        self._absent_since.clear()

    def end(self) -> None:
        """Takes nobody for gone any more."""
        self.begin(float("inf"))

    def looked(self, present: frozenset[int], now: float) -> bool:
        """Takes note of the locks held ``now``; returns whether somebody is gone who was not before."""
        for number in self.present - present:
            self._absent_since.setdefault(number, now)
        for number in present:
            self._absent_since.pop(number, None)
        for number in [each for each, since in self._absent_since.items() if now - since > _FORGET_SECONDS]:
            del self._absent_since[number]
        self.present = present
        before, self.gone = self.gone, self._judge(now)
        return not self.gone <= before

    def of(self, numbers: Collection[int], now: float) -> frozenset[int]:
        """Returns the numbers whose process is gone. A number never seen is watched from now on."""
        for number in numbers:
            if number not in self.present:
                self._absent_since.setdefault(number, now)
        return self.gone.intersection(numbers)

    def _judge(self, now: float) -> frozenset[int]:
        if now < self._trusts_from:
            return frozenset()
        return frozenset(each for each, since in self._absent_since.items() if now - since >= self._grace)


class Presence:
    """A number that this process has chosen, and a session-level advisory lock of that number in its database.

    A process that ends, however it does, closes its connection, and PostgreSQL frees the lock at once: the others see
    within two seconds that the process is ``gone``. A machine that vanishes is noticed later, and a process that hangs
    never: leases are for these. Being gone is a strong hint and no proof, since a connection may break alone. The lock
    is then taken anew, and what others did meanwhile has to be harmless.

    A pooler lends its connections to others, and the lock would stay with them. Behind one no process has a lock or
    counts as gone, so that leases decide alone.

    A process that has just lost its own lock knows nothing about the others, since the database may have been down.
    For ``distrust`` seconds after it has regained the lock, no process counts as gone.

    ``grace``: seconds for which a lock is missing before its process is gone. One that only lost its connection is
    back sooner.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        grace: float = 1.0,
        distrust: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = secrets.randbelow(2**31 - 1) + 1
        self.held = asyncio.Event()
        """Set while this process has its lock."""
        self._url = url
        self._name = name
        self._clock = clock
        self._distrust = distrust
        self._attendance = Attendance(grace=grace)
        self._callbacks: list[Callable[[], None]] = []
        self._has_held = False
        self._is_missed = False

    @property
    def announced(self) -> int | None:
        """The number under which others find the lock; None while this process does not hold it."""
        return self.number if self.held.is_set() else None

    def gone(self, numbers: Collection[int]) -> frozenset[int]:
        """Returns the numbers whose process has ended. A number asked for the first time is watched from then on."""
        return self._attendance.of(numbers, self._clock())

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls back when a process is gone, and when this one has its lock back after a loss."""
        self._callbacks.append(callback)

    async def run(self) -> None:
        """Holds the lock and looks every second who else does, until cancelled. Returns at once behind a pooler."""
        while True:
            try:
                await self._hold()
                return
            except (psycopg.Error, TimeoutError, OSError) as problem:
                if isinstance(problem, psycopg.Error) and not is_outage(problem):
                    raise
                self._missed(str(problem).strip() or repr(problem))
            finally:
                self._lost()
            await _RECONNECT.sleep(_RECONNECT.longest)

    async def _hold(self) -> None:
        connection = await AsyncConnection.connect(self._url, **_OPTIONS, application_name=f"aes-{self._name}-presence")
        async with connection:
            async with asyncio.timeout(_ANSWER_SECONDS):
                [(database, pid)] = await (await connection.execute(_DATABASE)).fetchall()
            # A pooler has to make up what it tells of the server process: that can be another one each time.
            if pid != connection.info.backend_pid:
                self._missed("the database is behind a pooler")
                return
            while True:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._look(connection, database)
                await _unless_it_ends(connection, _LOOK_SECONDS)

    async def _look(self, connection: AsyncConnection[TupleRow], database: int) -> None:
        present: dict[int, bool] = dict(await (await connection.execute(_LOOK, (_LOCK_CLASS, database))).fetchall())
        if not present.get(self.number):
            self._lost()
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (_LOCK_CLASS, self.number))
            row = await cursor.fetchone()
            if row is not None and row[0]:
                self._got()
            else:
                self._missed("a connection of before holds it, whose end the server has not noticed yet")
            return
        if self._attendance.looked(frozenset(present), self._clock()):
            _log.info("presence.processes_gone", numbers=sorted(self._attendance.gone))
            self._call_back()

    def _missed(self, reason: str) -> None:
        """Tells once that this process has no lock."""
        if not self._is_missed:
            self._is_missed = True
            _log.warning("presence.not_held", reason=reason, instead="leases and sessions of groups decide alone")

    def _got(self) -> None:
        again, self._has_held, self._is_missed = self._has_held, True, False
        self._attendance.begin(self._clock() + (self._distrust if again else 0.0))
        self.held.set()
        if again:
            _log.info("presence.held_again")
            self._call_back()

    def _lost(self) -> None:
        if self.held.is_set():
            self.held.clear()
            self._attendance.end()

    def _call_back(self) -> None:
        for callback in self._callbacks:
            callback()


async def _unless_it_ends(connection: AsyncConnection[TupleRow], seconds: float) -> None:
    """Waits, not longer than until the server ends the connection. psycopg's own wait wakes up ten times a second."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection.fileno(), readable.set)
    try:
        async with asyncio.timeout(seconds):
            await readable.wait()
    except TimeoutError:
        return
    finally:
        loop.remove_reader(connection.fileno())


class Holders(Protocol):
    """Processes that hold leases, by the numbers that they have announced."""

    async def numbers(self) -> list[int]:
        """The processes that hold something."""

    async def free(self, numbers: Collection[int]) -> int:
        """Ends the leases of these and queues what they held at once, as attempts that count; returns of how many."""


@dataclass(frozen=True, slots=True)
class ReclaimWork:
    """Queues what processes held that are gone, without waiting for the end of their leases.

    ``gone`` tells which processes have ended. It may be wrong about one that lives: what that one does to its work
    from then on has no effect, since the leases are no longer its own.
    """

    holders: Holders
    gone: Callable[[Collection[int]], Collection[int]]

    async def __call__(self) -> None:
        if (gone := self.gone(await self.holders.numbers())) and (freed := await self.holders.free(gone)):
            _log.info("work.reclaimed", rows=freed, processes=sorted(gone))
