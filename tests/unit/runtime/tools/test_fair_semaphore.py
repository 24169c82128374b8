"""Shares of the places in which tables are queried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from services.runtime.adapters.tools.artifacts.fair_semaphore import FairSemaphore
from services.runtime.domain.tools import ToolFailed


class House:
    """Calls that stay in their place until they are let go."""

    def __init__(self, places: int = 2, waiting: int = 8) -> None:
        self.places = FairSemaphore(places, waiting)
        self.inside: list[str] = []
        self.calls: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def arrive(self, *names: str) -> None:
        """The first letter of a name is the company."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.calls[name] = asyncio.create_task(self._stay(name))
            await settled()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settled()

    async def _stay(self, name: str) -> None:
        async with self.places.of(name[0]):
            self.inside.append(name)
            await self._ends[name].wait()
            self.inside.remove(name)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_company_with_many_calls_leaves_a_place_to_others() -> None:
    house = House()
    await house.arrive("a1", "a2", "a3", "b1")
    assert house.inside == ["a1", "b1"]


async def test_lines_are_served_in_turn() -> None:
    house = House(places=1)
    await house.arrive("a1", "a2", "a3", "b1", "c1", "b2")
    order = []
    while house.inside:
        order += house.inside
        await house.end(house.inside[0])
    assert order == ["a1", "a2", "b1", "c1", "a3", "b2"]


async def test_a_full_line_refuses_its_own_company_only() -> None:
    house = House(waiting=1)
    await house.arrive("a1", "a2", "a3", "b1")
    with pytest.raises(ToolFailed, match="again in a moment"):
        await house.calls["a3"]
    await house.end("a1")
    assert house.inside == ["b1", "a2"]


async def cancel_first(house: House) -> None:
    house.calls["a2"].cancel()
    await house.end("a1")


async def cancel_at_the_door(house: House) -> None:
    house._ends["a1"].set()
    while "a1" in house.inside:
        await asyncio.sleep(0)
    house.calls["a2"].cancel()
    await settled()


@pytest.mark.parametrize("cancelled", [cancel_first, cancel_at_the_door])
async def test_a_cancelled_call_keeps_no_place(cancelled: Callable[[House], Awaitable[None]]) -> None:
    house = House(places=1)
    await house.arrive("a1", "a2", "a3", "b1")
    await cancelled(house)
    for _ in range(2):
        await house.end(house.inside[0])
    await house.arrive("c1")
    assert house.inside == ["c1"]
