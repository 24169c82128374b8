import asyncio

from libs.persistence import renewed_leases


async def test_leases_are_renewed_while_the_block_runs() -> None:
    renewals = asyncio.Semaphore(0)

    async def renew() -> None:
        renewals.release()

    async with renewed_leases(renew, 0.04), asyncio.timeout(60):
        await renewals.acquire()
        await renewals.acquire()
    seen = renewals._value
    await asyncio.sleep(0.05)
    assert renewals._value == seen


async def test_a_failed_renewal_is_followed_by_others() -> None:
    attempts = asyncio.Semaphore(0)

    async def renew() -> None:
        attempts.release()
        raise ConnectionError("away")

    async with renewed_leases(renew, 0.04), asyncio.timeout(60):
        await attempts.acquire()
        await attempts.acquire()


async def test_a_renewal_in_work_is_waited_for() -> None:
    begun, ended = asyncio.Event(), False

    async def renew() -> None:
        nonlocal ended
        begun.set()
        await asyncio.sleep(0.05)
        ended = True

    async with renewed_leases(renew, 0.04), asyncio.timeout(60):
        await begun.wait()
    assert ended
