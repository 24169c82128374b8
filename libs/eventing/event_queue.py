"""A bounded queue of events for one reader."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from libs.contracts.errors import ServiceError, ServiceUnavailable

T = TypeVar("T")
MOST_UNREAD: Final = 2000
"""The maximum number of unread events. For a turn, that's a minute of text in pieces of 30 ms."""
MAX_EVENTS: Final = 64
"""The maximum number of events per read."""


class ReadTooSlowly(ServiceUnavailable):
    """The reader was disconnected because it had too many unread events."""

    def __init__(self) -> None:
        super().__init__(
            "The events were read too slowly. Reconnect with the ID of the last event you received.", retry_after=1
        )


class EventQueue(Generic[T]):
    """A bounded queue. If it overflows, it disconnects the reader and calls ``on_overflow``."""

    __slots__ = ("_is_reminded", "_on_overflow", "_problem", "_unread", "_waiter")

    def __init__(self, on_overflow: Callable[[], None] = lambda: None) -> None:
        self._on_overflow = on_overflow
        self._unread: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._problem: ServiceError | None = None
        self._is_reminded = False

    def offer(self, events: Sequence[T]) -> None:
        """Queues events without waking the reader."""
        if self._problem is not None:
            return
        if len(self._unread) + len(events) > MOST_UNREAD:
            self._on_overflow()
            self.end(ReadTooSlowly())
            return
        self._is_reminded = False
        self._unread.extend(events)

    def end(self, problem: ServiceError) -> None:
        """Makes ``next`` raise ``problem`` from now on."""
        self._problem = problem
        self._unread.clear()
        self.wake()

    def remind(self) -> None:
        """Makes ``next`` return an empty sequence, unless an event arrives first."""
        self._is_reminded = True
        self.wake()

    def wake(self) -> None:
        """Wakes the reader if it's waiting in ``next``."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self, most: int = MAX_EVENTS) -> Sequence[T]:
        """Returns the next events, or an empty sequence after ``remind``.

        Raises the problem that disconnected the reader.
        """
        while True:
            if self._problem is not None:
                raise self._problem
            if self._unread and self._may_take():
                return [self._unread.popleft() for _ in range(min(len(self._unread), most))]
            if self._is_reminded and not self._unread:
                self._is_reminded = False
                return ()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def wait(self, seconds: float, most: int = MAX_EVENTS) -> Sequence[T]:
        """Returns the next events, or an empty sequence if none arrive within ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                return await self.next(most)
        except TimeoutError:
            return ()

    @property
    def kept_waiting(self) -> int:
        """Returns the number of unread events if the reader is waiting in ``next``, or 0."""
        return 0 if self._waiter is None else len(self._unread)

    def _may_take(self) -> bool:
        return True
