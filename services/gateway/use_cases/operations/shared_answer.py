"""One answer for all who ask at about the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """Asks once, however many wait, and gives the same answer again until it is ``seconds`` old.

    A failure is everybody's who waits for it, and is not kept.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]], *, seconds: float, monotonic: Callable[[], float]) -> None:
        self._ask = ask
        self._seconds = seconds
        self._monotonic = monotonic
        self._asking: asyncio.Task[T] | None = None
        self._answered_at = 0.0

    async def get(self) -> T:
        if self._asking is None or self._is_over(self._asking):
            self._asking = asyncio.create_task(self._run())
        # One of several askers may go away; the others still want to know.
        return await asyncio.shield(self._asking)

    async def _run(self) -> T:
        answer = await self._ask()
        self._answered_at = self._monotonic()
        return answer

    def _is_over(self, asking: asyncio.Task[T]) -> bool:
        if not asking.done():
            return False
        failed = asking.cancelled() or asking.exception() is not None
        return failed or self._monotonic() - self._answered_at >= self._seconds
