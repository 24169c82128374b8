import asyncio

import pytest

from libs.persistence import renewed_leases
from tests.support.waiting import elapse

pytestmark = pytest.mark.virtual_time


async def test_leases_are_renewed_while_the_block_runs() -> None:
    renewals = 0

    async def renew() -> None:
        nonlocal renewals
        renewals += 1

    async with renewed_leases(renew, 40):
        await elapse(39)
        assert renewals == 3
    await elapse(60)
    assert renewals == 3


async def test_a_failed_renewal_is_followed_by_others() -> None:
    attempts = 0

    async def renew() -> None:
        nonlocal attempts
        attempts += 1
        raise ConnectionError("away")

    async with renewed_leases(renew, 40):
        await elapse(39)
    assert attempts == 3


async def test_a_renewal_in_work_is_waited_for() -> None:
    begun, ended = asyncio.Event(), False

    async def renew() -> None:
        nonlocal ended
        begun.set()
        await elapse(5)
        ended = True

    async with renewed_leases(renew, 40):
        await begun.wait()
    assert ended
