"""The watchdog ends a worker whose work is stuck or whose event loop hangs."""

import asyncio

import pytest

from services.ingestion.entrypoints.watchdog import Watchdog
from tests.support.waiting import until, wait_until


async def test_work_that_stands_still_ends_the_process() -> None:
    ended = asyncio.Event()

    async def stuck(_: float) -> bool:
        return True

    watching = asyncio.create_task(Watchdog(stuck, limit_seconds=0.05, look_seconds=0.02, end=ended.set).run())
    await until(ended.is_set)
    watching.cancel()


async def test_work_that_moves_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    looks = 0

    async def moving(_: float) -> bool:
        nonlocal looks
        looks += 1
        return False

    watchdog = Watchdog(moving, limit_seconds=0.05, look_seconds=0.01, end=lambda: ended.append(True))
    # On a busy machine the loop itself may stand still for that long.
    monkeypatch.setattr(watchdog, "_watch_loop", lambda: None)
    watching = asyncio.create_task(watchdog.run())
    await until(lambda: looks >= 3)
    watching.cancel()

    assert ended == []


async def test_a_hanging_loop_ends_the_process() -> None:
    ended: list[bool] = []

    async def moving(_: float) -> bool:
        return False

    watchdog = Watchdog(moving, limit_seconds=0.1, look_seconds=0.02, end=lambda: ended.append(True))
    watching = asyncio.create_task(watchdog.run())
    # The watch has begun.
    await asyncio.sleep(0)
    # The loop hangs here.
    wait_until(lambda: ended)
    watching.cancel()
