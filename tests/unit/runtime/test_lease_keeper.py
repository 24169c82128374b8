"""A released lease stays released: the worker lives on for a while, and must not look alive to others."""

import asyncio

from services.runtime.use_cases.engine.lease_keeper import LeaseKeeper
from tests.support.waiting import until


class SlowLeases:
    """Leases whose renewals take until they are let through; ``done`` is what took effect, in order."""

    def __init__(self) -> None:
        self.begun = 0
        self.done: list[str] = []
        self.through = asyncio.Event()

    async def renew(self) -> None:
        self.begun += 1
        await self.through.wait()
        self.done.append("renewed")

    async def release(self) -> None:
        self.done.append("released")


async def test_a_released_lease_is_not_renewed() -> None:
    leases, pauses = SlowLeases(), 0

    async def pause(_seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        await asyncio.sleep(0)

    keep = LeaseKeeper(leases, interval=1.0, sleep=pause)
    keeping = asyncio.create_task(keep.run())
    await until(lambda: leases.begun)
    releasing = asyncio.create_task(keep.release())
    await asyncio.sleep(0)
    leases.through.set()
    await releasing
    seen = pauses
    await until(lambda: pauses > seen + 2)
    assert leases.done == ["renewed", "released"]
    keeping.cancel()
    await asyncio.wait({keeping})
