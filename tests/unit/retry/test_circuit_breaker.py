from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.retry import CircuitBreaker, RetryPolicy


class Restarting:
    """Answers from the second ``back`` on; only sleeping takes time."""

    def __init__(self, back: float) -> None:
        self.back = back
        self.now = 0.0
        self.asked = 0
        policy = RetryPolicy(longest=1.0, give_up_after=5.0, clock=lambda: self.now, sleep=self._sleep)
        self._breaker = CircuitBreaker(policy)

    async def call(self, attempt: Callable[[], Awaitable[str]]) -> str:
        return await self._breaker.run(attempt, on=ServiceUnavailable)

    async def ask(self) -> str:
        self.asked += 1
        if self.now < self.back:
            raise ServiceUnavailable("away")
        return "answer"

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_calls_are_repeated_until_the_service_answers() -> None:
    service = Restarting(back=3.0)
    assert await service.call(service.ask) == "answer"
    assert 3.0 <= service.now < 5.0


async def test_an_open_breaker_allows_one_attempt() -> None:
    service = Restarting(back=60.0)
    with pytest.raises(ServiceUnavailable):
        await service.call(service.ask)
    assert 4.0 <= service.now <= 5.0

    asked = service.asked
    with pytest.raises(ServiceUnavailable):
        await service.call(service.ask)
    assert service.asked == asked + 1

    service.now = 60.0
    await service.call(service.ask)
    service.back = 62.0
    assert await service.call(service.ask) == "answer"


async def test_other_failures_are_not_repeated() -> None:
    service = Restarting(back=0.0)

    async def refused() -> str:
        service.asked += 1
        raise NotFound("no")

    with pytest.raises(NotFound):
        await service.call(refused)
    assert service.asked == 1
