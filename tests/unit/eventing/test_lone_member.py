"""Heartbeats of members whose process is alone, and of those that have company."""

from types import SimpleNamespace
from typing import Any

from libs.eventing._kafka_lone_member import LoneMember


class Broker:
    """Stands for the client's coordinator; counts the heartbeats that reach the broker."""

    def __init__(self) -> None:
        self.now = 100.0
        self.heartbeats = 0
        self.answers = True
        self.coordinator: Any = SimpleNamespace(_do_heartbeat=self._heartbeat)

    async def _heartbeat(self) -> bool:
        self.heartbeats += 1
        return self.answers

    async def beats(self, seconds: float) -> int:
        """The heartbeats of that time, of a client whose timer calls twice a second."""
        before, end = self.heartbeats, self.now + seconds
        while self.now < end:
            await self.coordinator._do_heartbeat()
            self.now += 0.5
        return self.heartbeats - before


def begun(broker: Broker, alone: list[bool]) -> None:
    client = SimpleNamespace(_coordinator=broker.coordinator)
    LoneMember(client, lambda: alone[0], clock=lambda: broker.now).begin()


async def test_a_lone_member_asks_every_three_seconds() -> None:
    broker, alone = Broker(), [True]
    begun(broker, alone)
    assert await broker.beats(30) == 10


async def test_with_company_it_asks_each_time_and_at_once() -> None:
    broker, alone = Broker(), [False]
    begun(broker, alone)
    assert await broker.beats(3) == 6
    alone[0] = True
    await broker.beats(2)
    alone[0] = False
    assert await broker.beats(0.5) == 1


async def test_a_heartbeat_without_an_answer_is_repeated_at_once() -> None:
    broker, alone = Broker(), [True]
    begun(broker, alone)
    broker.answers = False
    assert await broker.beats(3) == 6
    broker.answers = True
    assert await broker.beats(3) == 1
