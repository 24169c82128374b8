"""Heartbeats of members without others, and of those that have company."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, Final

from libs.eventing._kafka_lone_member import LoneMember
from tests.support.waiting import elapse, run_in_virtual_time

_INTERVAL: Final = 0.5


class Client:
    """Stands for the client, whose own timer sends a heartbeat twice a second."""

    def __init__(self) -> None:
        self.heartbeats = 0
        self.answers = True
        self.unsettled = asyncio.Event()
        self._coordinator: Any = SimpleNamespace(
            _do_heartbeat=self._heartbeat,
            _do_rejoin_group=self._rejoin,
            _perform_assignment=self._assign,
        )
        LoneMember(self, self._wait_while_settled).begin()  # type: ignore[arg-type]

    async def join(self, members: int, *, is_first: bool = True) -> None:
        """The group is shared anew among so many; the first one is told who they are."""
        await self._coordinator._do_rejoin_group((members, is_first))

    async def beats(self, seconds: float) -> int:
        """The heartbeats of that time."""
        before = self.heartbeats
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + 0.01):
                await self._beat()
        return self.heartbeats - before

    async def _beat(self) -> None:
        loop, pause = asyncio.get_running_loop(), _INTERVAL
        while True:
            await elapse(pause)
            asked = loop.time()
            answered = await self._coordinator._do_heartbeat()
            pause = max(_INTERVAL - (loop.time() - asked), 0.0) if answered else _INTERVAL

    async def _wait_while_settled(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.unsettled.wait()

    async def _heartbeat(self) -> bool:
        self.heartbeats += 1
        return self.answers

    async def _rejoin(self, group: tuple[int, bool]) -> None:
        members, is_first = group
        if is_first:
            await self._coordinator._perform_assignment(SimpleNamespace(members=range(members)))

    async def _assign(self, _: Any) -> None:
        return


def test_a_lone_member_asks_every_three_seconds() -> None:
    async def scenario() -> None:
        client = Client()
        await client.join(1)
        assert await client.beats(0.5) == 1
        assert await client.beats(30.5) == 10

    run_in_virtual_time(scenario())


def test_a_member_asks_twice_a_second_beside_others_and_where_it_does_not_know() -> None:
    async def scenario() -> None:
        client = Client()
        assert await client.beats(3) == 6
        await client.join(2)
        assert await client.beats(3) == 6
        await client.join(2, is_first=False)
        assert await client.beats(3) == 6

    run_in_virtual_time(scenario())


def test_a_process_that_comes_ends_the_wait() -> None:
    async def scenario() -> None:
        client = Client()
        await client.join(1)
        await client.beats(4)
        beating = asyncio.create_task(client.beats(2))
        await elapse(1)
        before = client.heartbeats
        client.unsettled.set()
        await elapse(0.01)
        assert client.heartbeats > before
        await beating
        assert await client.beats(3) == 6

    run_in_virtual_time(scenario())


def test_a_heartbeat_without_an_answer_is_repeated_soon() -> None:
    async def scenario() -> None:
        client = Client()
        await client.join(1)
        client.answers = False
        assert await client.beats(3) == 6
        client.answers = True
        assert await client.beats(3) == 1

    run_in_virtual_time(scenario())
