"""Ways for tests to wait: for a condition, for the proof that something doesn't happen, and on a clock of their own.

A test that sleeps hopes that the machine is fast enough, so no test sleeps: a rule of `./aes check` allows it in this
module alone. `until` waits for what happens elsewhere, `never` for the event after which what must not happen would
have happened, and a test marked `virtual_time` lets hours pass in no time with `elapse`.
"""

import asyncio
import inspect
import selectors
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
# Seconds. Generous, because it only bounds failures: a stalled machine must not look like a fault.
WITHIN = 180.0
# Between looks: short at first, since most things come soon, and longer when they take long.
PAUSE, LONGEST_PAUSE = 0.01, 0.1


async def until(
    condition: Callable[[], Awaitable[T] | T], what: str = "", *, within: float = WITHIN, pause: float = PAUSE
) -> T:
    """Polls until the condition is truthy and returns what it is. Fails the test after `within` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if loop.time() > deadline:
            raise AssertionError(_overdue(condition, what, within, found))
        await asyncio.sleep(pause)
        pause = max(pause, min(pause * 1.5, LONGEST_PAUSE))


def wait_until(condition: Callable[[], T], what: str = "", *, within: float = WITHIN, pause: float = 0.05) -> T:
    """`until` for code without an event loop."""
    deadline = time.monotonic() + within
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(_overdue(condition, what, within, found))
        time.sleep(pause)


async def never(condition: Callable[[], object], *, during: Awaitable[T]) -> T:
    """Fails when the condition becomes truthy while `during` is awaited; returns the result of `during`.

    `during` is what proves the absence: something later that takes the same way, so that what must not come would
    have come before it. Time alone proves nothing on a busy machine.
    """
    later = asyncio.ensure_future(during)
    try:
        while True:
            done = later.done()
            assert not condition(), "What must never happen has happened."
            if done:
                return later.result()
            await asyncio.wait((later,), timeout=PAUSE)
    finally:
        later.cancel()


async def pace(seconds: float) -> None:
    """Slows a stub server down, so that its answers take as long as those of the server that it stands for.

    Not for tests: one whose fake must be slow holds an event, or is marked `virtual_time`.
    """
    await asyncio.sleep(seconds)


def pace_blocking(seconds: float) -> None:
    """`pace` for code without an event loop."""
    time.sleep(seconds)


def _overdue(condition: Callable[[], object], what: str, within: float, found: object) -> str:
    return f"{what or getattr(condition, '__qualname__', condition)}: not within {within:g} s, still {found!r}"


class _Selector(selectors.DefaultSelector):
    """Doesn't wait: the time that the loop would have waited passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits for another one")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when no task can run: hours in milliseconds, the same on every machine.

    For tests whose tasks wait for each other and for time, not for sockets or threads.
    """

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


async def elapse(seconds: float) -> None:
    """Lets this much virtual time pass: all that is due meanwhile is done, in order, when it returns."""
    if not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
        raise RuntimeError("time passes by itself here: mark the test `virtual_time`, or wait with `until`")
    await asyncio.sleep(seconds)


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
