"""Commits to a Kafka whose coordinator is away."""

import asyncio
import gc
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import NotCoordinatorForGroupError

from libs.eventing import KafkaBus
from libs.eventing.bus import BusUnavailable, Partition


class Coordinator:
    """aiokafka's way to commit: the request goes on when its caller is cancelled."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.answered = asyncio.Event()

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition("things", 0)}

    async def commit(self, _offsets: dict[TopicPartition, int]) -> None:
        await asyncio.shield(self._do_commit_offsets())

    async def _do_commit_offsets(self) -> None:
        await self.answer.wait()
        self.answered.set()
        raise NotCoordinatorForGroupError("stopped")


async def test_a_commit_that_was_given_up_fails_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.eventing._kafka_consumer._COMMIT_SECONDS", 0.01)
    logged: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    consumer = KafkaBus("127.0.0.1:9").consumer("group", ["things"], None)  # type: ignore[arg-type]
    client, coordinator = consumer._consumer, Coordinator()
    monkeypatch.setattr(consumer, "_consumer", coordinator)

    with pytest.raises(BusUnavailable):
        await consumer.commit({Partition("things", 0): 1})
    coordinator.answer.set()
    await coordinator.answered.wait()
    await asyncio.sleep(0)
    gc.collect()

    assert logged == []
    await client.stop()
