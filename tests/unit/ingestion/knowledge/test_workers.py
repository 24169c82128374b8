"""Work on its way to the workers, and workers that are stuck."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from libs.eventing import KafkaConnection
from services.ingestion.adapters.kafka import KafkaWorkSender, grouped
from services.ingestion.domain.runs import Due, ItemKey, RunKey, WorkKey, decode_work, encode_work
from services.ingestion.entrypoints.streams import IngestionStreams
from services.ingestion.entrypoints.watchdog import Watchdog
from services.ingestion.settings import IngestionSettings
from services.ingestion.use_cases.dispatch_work import DispatchWork
from tests.support.fake_producer import FakeProducer
from tests.support.waiting import until, wait_until


def items(count: int, correlation: str = "c") -> list[Due]:
    return [Due(ItemKey("index", f"file-{number}"), "company", correlation) for number in range(count)]


def test_what_is_encoded_is_decoded() -> None:
    keys: list[WorkKey] = [RunKey("run"), ItemKey("index", "file")]

    assert decode_work(encode_work(keys)) == keys


@pytest.mark.parametrize("value", [b"", b"nonsense", b"7", b"[7]", b'[["a","b","c"]]'])
def test_what_is_no_work_is_passed_over(value: bytes) -> None:
    assert decode_work(value) == []


@pytest.mark.parametrize(("count", "messages"), [(1, 1), (8, 8), (24, 8), (256, 8), (800, 25)])
def test_work_spreads_in_few_messages(count: int, messages: int) -> None:
    found = grouped(items(count))

    assert len(found) == messages
    assert [due for message in found for due in message] == items(count)


def test_correlations_are_kept_apart() -> None:
    found = grouped([*items(3, "a"), *items(3, "b")])

    assert all(len({due.correlation_id for due in message}) == 1 for message in found)


async def test_messages_are_keyed_by_correlation_and_item() -> None:
    producer = FakeProducer()

    unsent = await KafkaWorkSender(producer, source="/aes/ingestion").send(items(2))

    assert unsent == []
    assert [key for _, key, _, _ in producer.delivered] == ["c/file-0", "c/file-1"]


async def test_what_the_bus_does_not_take_is_given_back() -> None:
    producer = FakeProducer()
    producer.down = True

    assert await KafkaWorkSender(producer, source="/aes/ingestion").send(items(2)) == items(2)


WORK = [Due(ItemKey("index", f"file-{number}"), "company", "correlation") for number in range(3)]


@dataclass
class MemoryQueue:
    waiting: list[Due] = field(default_factory=lambda: list(WORK))
    is_down: bool = False

    async def take_due(self, limit: int) -> list[Due]:
        if self.is_down:
            raise ConnectionError
        taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return taken

    async def requeue(self, work: Sequence[Due]) -> None:
        if self.is_down:
            raise ConnectionError
        self.waiting += work


@dataclass
class Bus:
    queue: MemoryQueue
    is_down: bool = True
    sent: list[Due] = field(default_factory=list)

    async def send(self, work: Sequence[Due]) -> list[Due]:
        """Stops the bus and the database at the same time."""
        if self.is_down:
            self.queue.is_down = True
            return list(work)
        self.sent += work
        return []


async def test_work_that_could_not_be_sent_is_queued_again_after_an_outage_of_the_database() -> None:
    queue = MemoryQueue()
    bus = Bus(queue)
    dispatch = DispatchWork(queue, bus)  # type: ignore[arg-type]

    for _ in range(2):
        with pytest.raises(ConnectionError):
            await dispatch()
    bus.is_down = queue.is_down = False
    await dispatch()

    assert (bus.sent, queue.waiting) == (WORK, [])


async def no_items(_: Sequence[ItemKey]) -> None:
    raise AssertionError("there is no work in this test")


async def no_run(_: RunKey) -> None:
    raise AssertionError("there is no run in this test")


async def test_a_broker_that_starts_later_is_waited_for() -> None:
    answering, asked, ends = False, 0, 0

    def end() -> None:
        nonlocal ends
        ends += 1

    def answers() -> bool:
        nonlocal asked
        asked += 1
        return answering

    streams = IngestionStreams(
        # Nothing can listen there.
        kafka=KafkaConnection(servers="127.0.0.1:1"),
        prefix="",
        member_id="test-1",
        items=no_items,
        run=no_run,
        batches=1,
        broker_answers=answers,
        end=end,
    )
    started = asyncio.Event()
    start = streams.app.start

    async def watched_start() -> None:
        started.set()
        await start()

    streams.app.start = watched_start  # type: ignore[method-assign]
    serving = asyncio.create_task(streams.serve())
    try:
        await until(lambda: asked >= 3)
        assert (started.is_set(), ends) == (False, 0)

        answering = True
        await until(started.is_set)
    finally:
        await streams.stop()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_work_that_stands_still_ends_the_process() -> None:
    ended = asyncio.Event()

    async def stuck(_: float) -> bool:
        return True

    watching = asyncio.create_task(Watchdog(stuck, limit_seconds=0.05, check_seconds=0.02, end=ended.set).run())
    await until(ended.is_set)
    watching.cancel()


async def test_work_that_moves_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    checks = 0

    async def moving(_: float) -> bool:
        nonlocal checks
        checks += 1
        return False

    watchdog = Watchdog(moving, limit_seconds=0.05, check_seconds=0.01, end=lambda: ended.append(True))
    # On a busy machine the loop itself may stand still for that long.
    monkeypatch.setattr(watchdog, "_watch_loop", lambda: None)
    watching = asyncio.create_task(watchdog.run())
    await until(lambda: checks >= 3)
    watching.cancel()

    assert ended == []


async def test_a_hanging_loop_ends_the_process() -> None:
    ended: list[bool] = []

    async def moving(_: float) -> bool:
        return False

    watchdog = Watchdog(moving, limit_seconds=0.1, check_seconds=0.02, end=lambda: ended.append(True))
    watching = asyncio.create_task(watchdog.run())
    # The watch has begun.
    await asyncio.sleep(0)
    # The loop hangs here.
    wait_until(lambda: ended)
    watching.cancel()


GIVEN: dict[str, Any] = {
    "database_url": "postgresql://x",
    "objects_url": "file:/x",
    "signing_key": "k" * 40,
    "runtime_url": "http://x",
}


def test_the_watchdog_outlasts_the_longest_file() -> None:
    assert IngestionSettings(**GIVEN, parsing_timeout_seconds=600, watchdog_seconds=700).watchdog_seconds == 700
    with pytest.raises(ValidationError, match="AES_INGESTION_WATCHDOG_SECONDS must be greater"):
        IngestionSettings(**GIVEN, parsing_timeout_seconds=600)
