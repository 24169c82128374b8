"""Asking again while a service that restarts does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, TypeVar

from libs.contracts.errors import ServiceUnavailable

T = TypeVar("T")
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
_GIVEN_UP_SECONDS: Final = 10.0


class Patience:
    """Repeats calls that one service did not answer, for up to ``seconds`` from the first.

    A service that is away for longer costs each worker that wait once: until it answers again, calls that follow
    within ten seconds of a failed one get a single attempt, so that turns do not queue up behind an outage.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._given_up = -_GIVEN_UP_SECONDS

    async def call(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """``attempt`` must be safe to repeat, and raise ServiceUnavailable only when there was no answer.

        Raises what ``attempt`` raises; ServiceUnavailable when patience is at its end.
        """
        began, pause = self._clock(), _FIRST_PAUSE
        ends = began + self._seconds if began - self._given_up >= _GIVEN_UP_SECONDS else began
        while True:
            try:
                result = await attempt()
            except ServiceUnavailable:
                if self._clock() + pause > ends:
                    self._given_up = self._clock()
                    raise
                await self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._given_up = -_GIVEN_UP_SECONDS
                return result
