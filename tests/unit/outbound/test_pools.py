"""Kept-alive connections of several callers."""

import asyncio

import aiohttp
import pytest

from libs.outbound._pools import ConnectionPools


class Sessions:
    def __init__(self) -> None:
        self.made: list[aiohttp.ClientSession] = []

    def __call__(self) -> aiohttp.ClientSession:
        self.made.append(aiohttp.ClientSession())
        return self.made[-1]


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


async def test_a_key_has_one_session(sessions: Sessions) -> None:
    pools = ConnectionPools(sessions)

    async with pools.use("a") as first, pools.use("b") as other:
        assert first is not other
    async with pools.use("a") as again:
        assert again is first
    await pools.close()

    assert all(session.closed for session in sessions.made)


async def test_the_longest_unused_session_is_closed_and_none_in_use(sessions: Sessions) -> None:
    pools = ConnectionPools(sessions, most=2)

    async with pools.use("held") as held:
        for key in ("a", "b", "c"):
            async with pools.use(key):
                await asyncio.sleep(0)
        assert not held.closed
        assert [session.closed for session in sessions.made] == [False, True, True, False]
    await pools.close()
