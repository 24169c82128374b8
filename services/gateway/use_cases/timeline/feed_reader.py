"""One reader of a company's feed."""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from libs.contracts.errors import ServiceError
from libs.contracts.messages import Received
from services.gateway.domain.timeline import TimelineEvent, TimelineFilter
from services.gateway.domain.timeline_reading import ReadTooSlowly

MOST_UNREAD: Final = 2000
MOST_TAKEN: Final = 64
"""Events that a reader gets at once."""
KEEP_ALIVE_SECONDS: Final = 15.0


class FeedReader:
    """A bounded queue of events after ``joined_at``. A reader that leaves too many unread is ended.

    ``expires_at``: the end of the credential that the reader has come with.
    """

    __slots__ = (
        "_active_at",
        "_is_limited",
        "_may_take",
        "_problem",
        "_reached",
        "_unread",
        "_waiter",
        "expires_at",
        "joined_at",
        "where",
    )

    def __init__(self, where: TimelineFilter, *, joined_at: int, expires_at: datetime | None, now: float) -> None:
        self.where = where
        self.joined_at = joined_at
        self.expires_at = expires_at
        self._unread: deque[TimelineEvent | Received] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._problem: ServiceError | None = None
        self._reached: int | None = None
        self._is_limited = False
        self._may_take = False
        self._active_at = now

    def offer(self, events: Sequence[TimelineEvent | Received], now: float) -> bool:
        """Queues events, or texts, for when the reader is woken; returns whether these were too many."""
        if self._problem is not None:
            return False
        if len(self._unread) + len(events) > MOST_UNREAD:
            self.end(ReadTooSlowly())
            return True
        self._active_at = now
        # What comes is after it.
        self._reached = None
        self._unread.extend(events)
        return False

    def end(self, problem: ServiceError) -> None:
        """Makes ``next`` raise the problem, from now on."""
        self._problem = problem
        self._unread.clear()
        self.wake()

    def tick(self, now: float, position: int) -> None:
        """Makes ``next`` tell how far the feed is when nothing has come for a while."""
        if now - self._active_at >= KEEP_ALIVE_SECONDS:
            self._active_at = now
            self._reached = position
            self.wake()

    async def next(self) -> Sequence[TimelineEvent | Received] | int:
        """The next events and texts, or the position reached without one. Raises what the reader was ended with."""
        while True:
            if self._problem is not None:
                raise self._problem
            if self._unread and (self._may_take or not self._is_limited):
                self._may_take = False
                return [self._unread.popleft() for _ in range(min(len(self._unread), MOST_TAKEN))]
            if self._reached is not None and not self._unread:
                reached, self._reached = self._reached, None
                return reached
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    @property
    def kept_waiting(self) -> int:
        """The number of unread events of a reader that is in ``next``; one that its caller holds up is not."""
        return 0 if self._waiter is None else len(self._unread)

    @property
    def is_held(self) -> bool:
        """Whether ``next`` has more, and waits to be woken for it."""
        return self._is_limited and not self._may_take and bool(self._unread)

    def unlimit(self) -> None:
        """Lets ``next`` give all that comes until it is woken again."""
        self._is_limited = False

    def wake(self, *, once: bool = False) -> None:
        """Lets ``next`` go on; ``once`` until it has returned, and then not before it is woken again."""
        self._is_limited = self._may_take = once
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
