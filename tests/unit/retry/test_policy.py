"""Policies of repetition and circuit breakers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import pytest

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.retry import CircuitBreaker, RetryPolicy, Transient


@dataclass
class Time:
    """A clock that only sleeping moves; ``waits`` are the seconds of each sleep."""

    now: float = 0.0
    waits: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def policy(self, **limits: float | int) -> RetryPolicy:
        return RetryPolicy(**limits, clock=self, sleep=self.sleep, jitter=lambda: 1.0)  # type: ignore[arg-type]


def failing(*problems: BaseException) -> Callable[[], Awaitable[str]]:
    """Raises the problems one after the other, then answers."""
    left: Iterator[BaseException] = iter(problems)

    async def call() -> str:
        for problem in left:
            raise problem
        return "answer"

    return call


async def test_waits_double_up_to_the_longest() -> None:
    time = Time()
    assert await time.policy(first=1, longest=5).run(failing(*[OSError()] * 5)) == "answer"
    assert time.waits == [1, 2, 4, 5, 5]


async def test_thousands_of_attempts_are_no_overflow() -> None:
    time = Time()
    assert await time.policy(longest=1).run(failing(*[OSError()] * 1100)) == "answer"


async def test_jitter_takes_away_up_to_half_of_a_wait() -> None:
    time = Time()
    policy = RetryPolicy(first=4, clock=time, sleep=time.sleep, jitter=lambda: 0.0)
    await policy.run(failing(OSError()))
    assert time.waits == [2]


async def test_attempts_are_counted_with_the_first_one() -> None:
    time, last = Time(), OSError("third")
    with pytest.raises(OSError, match="third") as raised:
        await time.policy(attempts=3).run(failing(OSError(), OSError(), last))
    assert raised.value is last
    assert len(time.waits) == 2


async def test_no_wait_ends_after_the_time_to_give_up() -> None:
    time = Time()
    with pytest.raises(ConnectionError):
        await time.policy(first=1, longest=1, give_up_after=5).run(failing(*[ConnectionError()] * 20))
    assert time.now == 4


async def test_outages_do_not_count_towards_giving_up() -> None:
    time = Time()
    problems = [ConnectionError()] * 10 + [KeyError()] * 20
    policy = time.policy(first=1, longest=1, give_up_after=3)
    with pytest.raises(KeyError):
        await policy.run(failing(*problems), outage=lambda problem: isinstance(problem, ConnectionError))
    assert time.now == 11


async def test_other_failures_are_raised_at_once() -> None:
    time = Time()
    with pytest.raises(KeyError):
        await time.policy().run(failing(OSError(), KeyError("x")), on=OSError)
    with pytest.raises(KeyError):
        await time.policy().run(failing(KeyError("x")), when=lambda problem: not isinstance(problem, KeyError))
    assert len(time.waits) == 1


async def test_the_wait_that_was_asked_for_is_kept_unless_it_is_too_long() -> None:
    time = Time()
    assert await time.policy(first=1, longest=20).run(failing(Transient("busy", 7), Transient("busy", 1))) == "answer"
    assert time.waits == [7, 2]
    with pytest.raises(Transient):
        await time.policy(longest=20).run(failing(Transient("busy", 21)))


async def test_before_sleep_is_told_the_failure_and_the_attempt() -> None:
    told = []
    problems = [OSError("one"), OSError("two")]
    await Time().policy().run(failing(*problems), before_sleep=lambda *what: told.append(what))
    assert told == [(problems[0], 1), (problems[1], 2)]


@pytest.mark.parametrize("failures", [0, 1])
async def test_a_cancellation_during_a_call_is_not_retried(failures: int) -> None:
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        if calls <= failures:
            raise OSError
        await asyncio.Event().wait()

    task = asyncio.create_task(RetryPolicy(first=0).run(call))
    while calls <= failures:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == failures + 1


async def test_a_cancellation_during_a_wait_ends_it() -> None:
    waits = asyncio.Event()

    async def wait(_seconds: float) -> None:
        waits.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(RetryPolicy(sleep=wait).run(failing(OSError())))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


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
