"""One reader of a company's feed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from libs.contracts.messages import Received
from libs.contracts.timeline import TimelineFilter
from libs.eventing.request_reply import EventQueue
from services.gateway.domain.timeline import TimelineEvent

KEEP_ALIVE_SECONDS: Final = 15.0


class FeedReader(EventQueue[TimelineEvent | Received]):
    """Receives the events after ``joined_at`` and, if it ``takes_texts``, the texts of its session's turns.

    ``reached``: the feed's position at the last keep-alive.
    """

    __slots__ = (
        "_active_at",
        "_is_limited",
        "_is_woken",
        "joined_at",
        "reached",
        "takes_texts",
        "where",
    )

    def __init__(
        self,
        where: TimelineFilter,
        *,
        joined_at: int,
        takes_texts: bool = False,
        on_overflow: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(on_overflow)
        self.where = where
        self.joined_at = self.reached = joined_at
        self.takes_texts = takes_texts
        self._is_limited = False
        self._is_woken = False
        self._active_at = asyncio.get_running_loop().time()

    def offer(self, events: Sequence[TimelineEvent | Received]) -> None:
        self._active_at = asyncio.get_running_loop().time()
        super().offer(events)

    def tick(self, now: float, position: int) -> None:
        """Reports the feed's position to the reader if no event has arrived for a while."""
        if now - self._active_at >= KEEP_ALIVE_SECONDS:
            self._active_at = now
            self.reached = position
            self.remind()

    @property
    def is_held(self) -> bool:
        """Whether there are items that ``next`` returns only after ``wake``."""
        return self._is_limited and not self._is_woken and bool(self._unread)

    def unlimit(self) -> None:
        """Lets ``next`` return items as they arrive."""
        self._is_limited = False

    def wake(self, *, once: bool = False) -> None:
        """Lets ``next`` return the items that have arrived. ``once``: lets only one call return items."""
        self._is_limited = self._is_woken = once
        super().wake()

    def _may_take(self) -> bool:
        may = self._is_woken or not self._is_limited
        self._is_woken = False
        return may
