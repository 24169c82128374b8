"""How long calls of a service that restarts are repeated."""

from __future__ import annotations

import pytest

from libs.contracts.errors import NotFound, ServiceUnavailable
from services.runtime.adapters.patience import Patience


class Restarting:
    """A service that answers from ``back`` on; sleeping is all that takes time."""

    def __init__(self, back: float) -> None:
        self.back = back
        self.now = 0.0
        self.asked = 0
        self.patience = Patience(5.0, lambda: self.now, self._sleep)

    async def ask(self) -> str:
        self.asked += 1
        if self.now < self.back:
            raise ServiceUnavailable("away")
        return "answer"

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_calls_are_repeated_until_there_is_an_answer() -> None:
    service = Restarting(back=3.0)
    assert await service.patience.call(service.ask) == "answer"
    assert 3.0 <= service.now < 5.0


async def test_a_service_that_stays_away_is_waited_for_once() -> None:
    service = Restarting(back=60.0)
    with pytest.raises(ServiceUnavailable):
        await service.patience.call(service.ask)
    assert 4.0 <= service.now <= 5.0

    asked = service.asked
    with pytest.raises(ServiceUnavailable):
        await service.patience.call(service.ask)
    assert service.asked == asked + 1

    service.now = 60.0
    await service.patience.call(service.ask)
    service.back = 62.0
    assert await service.patience.call(service.ask) == "answer"


async def test_an_answer_is_an_answer_also_when_it_is_a_refusal() -> None:
    service = Restarting(back=0.0)

    async def refused() -> None:
        service.asked += 1
        raise NotFound("no")

    with pytest.raises(NotFound):
        await service.patience.call(refused)
    assert service.asked == 1
