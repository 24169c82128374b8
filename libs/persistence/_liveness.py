"""Detects dead processes by their missing database locks, and reclaims their work."""

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
# A dead process is noticed after this interval plus the grace period: two seconds.
_CHECK_SECONDS: Final = 1.0
_FORGET_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 5.0
# Must be well below the grace period.
_RECONNECT: Final = RetryPolicy(first=0.1, longest=0.2)
# Finds the processes that hold their lock, and whether the lock belongs to this connection. The function is twice as
# fast as the view pg_locks.
_PRESENT: Final = """
    SELECT l.objid::bigint, l.pid = pg_backend_pid() FROM pg_lock_status() l
    WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objsubid = 2 AND l.granted AND l.database = %s
"""
# This is queried only once per connection, since it takes more than half as long as a check.
_DATABASE: Final = "SELECT oid::bigint, pg_backend_pid() FROM pg_database WHERE datname = current_database()"
# Both sides notice a vanished machine within about ten seconds.
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


class LivenessTracker:
    """Determines which processes are dead. All times are in seconds on the same clock.

    A process counts as dead once its lock has been missing for ``grace`` seconds.
    """

    def __init__(self, *, grace: float) -> None:
        self._grace = grace
        self.gone: frozenset[int] = frozenset()
        self._trusts_from = float("inf")
        self.present: frozenset[int] = frozenset()
        self._absent_since: dict[int, float] = {}

    def begin(self, trusts_from: float) -> None:
        """Forgets all earlier checks. No process counts as dead before the time ``trusts_from``."""
        self._trusts_from = trusts_from
        self.present = self.gone = frozenset()
        self._absent_since.clear()

    def end(self) -> None:
        """Stops tracking. Then no process counts as dead."""
        self.begin(float("inf"))

    def looked(self, present: frozenset[int], now: float) -> bool:
        """Records the held locks. Returns whether another process has died."""
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
        """Returns the ``numbers`` of dead processes. Also starts to watch any new numbers."""
        for number in numbers:
            if number not in self.present:
                self._absent_since.setdefault(number, now)
        return self.gone.intersection(numbers)

    def _judge(self, now: float) -> frozenset[int]:
        if now < self._trusts_from:
            return frozenset()
        return frozenset(each for each, since in self._absent_since.items() if now - since >= self._grace)


class Presence:
    """This process's sign of life: a random number and a session-level advisory lock on the number.

    When a process ends, PostgreSQL releases its lock. A process whose lock is missing for ``grace`` seconds is
    ``gone``. It may still be alive if only its connection failed, so any reaction must be harmless. A hanging process
    keeps its lock, so leases are still needed.

    After this process has regained a lost lock, no process counts as gone for ``distrust`` seconds, since the database
    may have been down.

    Behind a pooler, another client could inherit the lock. So processes there hold no locks and never count as gone.
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
        """Set while this process holds its lock."""
        self._url = url
        self._name = name
        self._clock = clock
        self._distrust = distrust
        self._tracker = LivenessTracker(grace=grace)
        self._callbacks: list[Callable[[], None]] = []
        self._has_held = False
        self._is_missed = False

    @property
    def announced(self) -> int | None:
        """The number of this process, or None while the process doesn't hold its lock."""
        return self.number if self.held.is_set() else None

    def gone(self, numbers: Collection[int]) -> frozenset[int]:
        """Returns the ``numbers`` of dead processes. Also starts to watch any new numbers."""
        return self._tracker.of(numbers, self._clock())

    def on_change(self, callback: Callable[[], None]) -> None:
        """Registers a callback for when another process dies, and when this process regains its lock."""
        self._callbacks.append(callback)

    async def run(self) -> None:
        """Holds this process's lock and checks other locks, until cancelled. Returns immediately behind a pooler."""
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
            # A pooler has no fixed server process, so the pid that it reports differs.
            if pid != connection.info.backend_pid:
                self._missed("the database is behind a pooler")
                return
            while True:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._check(connection, database)
                await _unless_it_ends(connection, _CHECK_SECONDS)

    async def _check(self, connection: AsyncConnection[TupleRow], database: int) -> None:
        present: dict[int, bool] = dict(await (await connection.execute(_PRESENT, (_LOCK_CLASS, database))).fetchall())
        if not present.get(self.number):
            self._lost()
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (_LOCK_CLASS, self.number))
            row = await cursor.fetchone()
            if row is not None and row[0]:
                self._got()
            else:
                self._missed("an earlier connection still holds the lock")
            return
        if self._tracker.looked(frozenset(present), self._clock()):
            _log.info("presence.processes_died", numbers=sorted(self._tracker.gone))
            self._call_back()

    def _missed(self, reason: str) -> None:
        """Logs the loss of the lock, only once until it's regained."""
        if not self._is_missed:
            self._is_missed = True
            _log.warning(
                "presence.not_held", reason=reason, fallback="only leases and Kafka sessions detect dead processes"
            )

    def _got(self) -> None:
        again, self._has_held, self._is_missed = self._has_held, True, False
        self._tracker.begin(self._clock() + (self._distrust if again else 0.0))
        self.held.set()
        if again:
            _log.info("presence.reacquired")
            self._call_back()

    def _lost(self) -> None:
        if self.held.is_set():
            self.held.clear()
            self._tracker.end()

    def _call_back(self) -> None:
        for callback in self._callbacks:
            callback()


async def _unless_it_ends(connection: AsyncConnection[TupleRow], seconds: float) -> None:
    """Waits until the server closes the connection. psycopg's own wait would wake up ten times a second."""
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
    """The leases that processes hold. A process is identified by its ``announced`` number."""

    async def numbers(self) -> list[int]:
        """Returns the numbers of the processes that hold at least one lease."""

    async def free(self, numbers: Collection[int]) -> int:
        """Ends the leases of these processes and requeues their work. Returns the number of affected rows.

        The interrupted runs count as attempts.
        """


@dataclass(frozen=True, slots=True)
class ReclaimWork:
    """Requeues the work of dead processes before their leases expire. ``gone`` returns the dead processes.

    If such a process is still alive, it has lost its leases, so its writes have no effect.
    """

    holders: Holders
    gone: Callable[[Collection[int]], Collection[int]]

    async def __call__(self) -> None:
        if (gone := self.gone(await self.holders.numbers())) and (freed := await self.holders.free(gone)):
            _log.info("work.reclaimed", rows=freed, processes=sorted(gone))
