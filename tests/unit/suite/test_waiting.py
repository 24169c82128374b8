"""The ways in which tests wait."""

import asyncio

import pytest

from tests.support.waiting import elapse, never


@pytest.fixture
async def began() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.virtual_time
async def test_virtual_time_passes_when_no_task_can_run(began: float) -> None:
    events: list[str] = []
    asyncio.get_running_loop().call_later(59, events.append, "due")
    await elapse(3600)
    assert events == ["due"]
    assert asyncio.get_running_loop().time() == began + 3600


async def _later() -> str:
    await elapse(10)
    return "later"


@pytest.mark.virtual_time
async def test_never_returns_the_later_event() -> None:
    assert await never(lambda: False, during=_later()) == "later"


@pytest.mark.virtual_time
@pytest.mark.parametrize("at", [0.0, 5.0, 10.0])
async def test_never_fails_once_it_has_happened(at: float) -> None:
    seen: list[str] = []
    asyncio.get_running_loop().call_later(at, seen.append, "it")
    with pytest.raises(AssertionError, match="never"):
        await never(lambda: seen, during=_later())
