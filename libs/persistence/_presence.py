"""Shows that this process lives by a lock that PostgreSQL frees as soon as it does not."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import psycopg
import structlog
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from libs.persistence._attendance import Attendance
from libs.persistence._errors import is_outage
from libs.retry import RetryPolicy

_log = structlog.get_logger("database.presence")
_LOCK_CLASS: Final = 7_110_024
_LOOK_SECONDS: Final = 0.5
# Together with the second for which a lock has to be missing: two.
_SETTLED_SECONDS: Final = 1.0
# Alone, a process has nobody to lose. A process that has just begun may be asked about the one before it.
_ALONE_SECONDS: Final = 2.0
_SETTLE_SECONDS: Final = 15.0
_ANSWER_SECONDS: Final = 5.0
# Well below the second after which the others take a missing lock for the end of its process.
_RECONNECT: Final = RetryPolicy(first=0.1, longest=0.2)
# All processes of the service that hold their lock, and which of these this very connection holds: behind a pooler that
# lends connections for single transactions it is another one each time. It reads the function that the view pg_locks is
# made of: a look is planned anew each time, and with the view it takes twice as long.
_LOOK: Final = """
    SELECT l.objid::bigint, l.pid = pg_backend_pid() FROM pg_lock_status() l
    WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objsubid = 2 AND l.granted AND l.database = %s
"""
# Asked once: it takes more than half of the time of a look, which is planned anew each time.
_DATABASE: Final = "SELECT oid::bigint FROM pg_database WHERE datname = current_database()"
# Both sides notice within some ten seconds that the other's machine is gone.
_OPTIONS: Final[dict[str, Any]] = {
    "autocommit": True,
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    # A pooler may hand each statement to another connection, which does not know what was prepared.
    "prepare_threshold": None,
    "options": "-c statement_timeout=5000 -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2"
    " -c tcp_keepalives_count=3",
}


class Presence:
    """A number that this process has chosen, and a session-level advisory lock of that number in its database.

    A process that ends, however it does, closes its connection, and PostgreSQL frees the lock at once: the others see
    within two seconds that the process is ``gone``. A machine that vanishes is noticed later, and a process that hangs
    never: leases are for these. Being gone is a strong hint and no proof, since a connection may break alone. The lock
    is then taken anew, and what others did meanwhile has to be harmless. A process that is the only one of its service
    looks less often.

    Whoever has just lost his own lock knows nothing about the others: it may have been the database that was away. For
    ``distrust`` seconds after he has it again nobody counts as gone.

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
        self._settles_at = 0.0
        self._unsettled = asyncio.Event()
        self._unsettled.set()

    @property
    def announced(self) -> int | None:
        """The number under which others find the lock; None while this process does not hold it."""
        return self.number if self.held.is_set() else None

    @property
    def settled(self) -> bool:
        """Whether the processes of the service have been the same for a while, as far as this one knows."""
        return self.held.is_set() and self._attendance.is_settled and self._clock() >= self._settles_at

    @property
    def alone(self) -> bool:
        """Whether this process has been the only one of its service for a while, as far as it knows."""
        return self.settled and len(self._attendance.present) <= 1

    async def wait_while_settled(self, seconds: float) -> None:
        """Waits that many seconds, but no longer than the processes of the service are the same."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._unsettled.wait()

    def gone(self, numbers: Collection[int]) -> frozenset[int]:
        """Returns the numbers whose process has ended. A number asked for the first time is watched from then on."""
        found = self._attendance.of(numbers, self._clock())
        self._settle()
        return found

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls back when a process is gone, and when this one has its lock back after a loss."""
        self._callbacks.append(callback)

    async def run(self) -> None:
        """Holds the lock and looks who else does, twice a second while somebody comes or goes, until cancelled."""
        while True:
            try:
                await self._hold()
            except (psycopg.Error, TimeoutError, OSError) as problem:
                if isinstance(problem, psycopg.Error) and not is_outage(problem):
                    raise
                if self.held.is_set():
                    _log.warning("presence.lost", problem=str(problem).strip())
            finally:
                self._lost()
            await _RECONNECT.sleep(_RECONNECT.longest)

    async def _hold(self) -> None:
        connection = await AsyncConnection.connect(self._url, **_OPTIONS, application_name=f"aes-{self._name}-presence")
        async with connection:
            async with asyncio.timeout(_ANSWER_SECONDS):
                [(database,)] = await (await connection.execute(_DATABASE)).fetchall()
            while True:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._look(connection, database)
                await _unless_it_ends(connection, self._pause())

    def _pause(self) -> float:
        if self.alone:
            return _ALONE_SECONDS
        return _SETTLED_SECONDS if self.settled else _LOOK_SECONDS

    async def _look(self, connection: AsyncConnection[TupleRow], database: int) -> None:
        present: dict[int, bool] = dict(await (await connection.execute(_LOOK, (_LOCK_CLASS, database))).fetchall())
        if not present.get(self.number):
            self._lost()
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (_LOCK_CLASS, self.number))
            row = await cursor.fetchone()
            # Not free: held by a connection of before, whose end the server has not noticed yet, or by a pooler's.
            if row is None or not row[0]:
                return
            self._got()
            return
        before = self._attendance.present
        are_gone = self._attendance.looked(frozenset(present), self._clock())
        if are_gone or self._attendance.present != before:
            # What they have is shared anew now.
            self._settles_at = self._clock() + _SETTLE_SECONDS
        self._settle()
        if are_gone:
            _log.info("presence.processes_gone", numbers=sorted(self._attendance.gone))
            self._call_back()

    def _settle(self) -> None:
        if self.settled:
            self._unsettled.clear()
        else:
            self._unsettled.set()

    def _got(self) -> None:
        again, self._has_held = self._has_held, True
        self._settles_at = self._clock() + _SETTLE_SECONDS
        self._attendance.begin(self._clock() + (self._distrust if again else 0.0))
        self.held.set()
        if again:
            _log.info("presence.held_again")
            self._call_back()

    def _lost(self) -> None:
        if self.held.is_set():
            self.held.clear()
            self._attendance.end()
            self._settle()

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
