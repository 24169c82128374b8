"""Acknowledged messages may be lost: the states of items in the database make up for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from libs.contracts.topics import INGESTION_WORK
from libs.eventing import KafkaBus, KafkaConnection, create_topics
from services.ingestion.domain.runs import ItemKey, RunKey, encode_work
from services.ingestion.entrypoints.streams import IngestionStreams, lag
from tests.support.metrics import metric
from tests.support.waiting import until

Items = Callable[[Sequence[ItemKey]], Awaitable[None]]


@asynccontextmanager
async def working(kafka: str, prefix: str, items: Items) -> AsyncIterator[IngestionStreams]:
    async def no_run(_: RunKey) -> None:
        raise AssertionError("there is no run in this test")

    streams = IngestionStreams(
        kafka=KafkaConnection(servers=kafka),
        prefix=prefix,
        process=1,
        items=items,
        run=no_run,
        batch=1,
        batches=1,
        end=lambda: None,
    )
    serving = asyncio.create_task(streams.serve())
    try:
        yield streams
    finally:
        # Also after a failed test: tasks of Faust that run on would hold up the end of the event loop for ever.
        await streams.stop()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.rule(22)
async def test_work_whose_handler_raised_is_acknowledged_and_never_heard_of_again(
    kafka: str, topic_prefix: str
) -> None:
    await create_topics(kafka, topic_prefix, topics=(INGESTION_WORK,))
    lost, next_one = ItemKey("index", "lost"), ItemKey("index", "next")
    raised: list[ItemKey] = []
    heard: list[ItemKey] = []

    async def raise_at(keys: Sequence[ItemKey]) -> None:
        raised.extend(keys)
        raise RuntimeError("a fault of ours")

    async def hear(keys: Sequence[ItemKey]) -> None:
        heard.extend(keys)

    async def has_raised() -> bool:
        return bool(raised)

    async def has_heard() -> bool:
        return bool(heard)

    async def is_healthy() -> bool:
        return producer.healthy

    producer = KafkaBus(kafka, prefix=topic_prefix).producer()
    await producer.start()
    await until(is_healthy, "the producer is connected")
    try:
        async with working(kafka, topic_prefix, raise_at):
            await (await producer.send(INGESTION_WORK.name, "a/1", encode_work([lost]), []))
            await until(has_raised, "the work is taken, in vain")
        async with working(kafka, topic_prefix, hear) as streams:
            await (await producer.send(INGESTION_WORK.name, "a/1", encode_work([next_one]), []))
            await until(has_heard, "the next work is taken")
            directory_left = await asyncio.to_thread(Path(streams.app.conf.datadir).exists)
    finally:
        await producer.stop()

    assert (raised, heard) == ([lost], [next_one])
    assert not directory_left


async def test_an_item_that_is_sent_again_while_it_waits_is_taken_once(kafka: str, topic_prefix: str) -> None:
    await create_topics(kafka, topic_prefix, topics=(INGESTION_WORK,))
    first, second, third = [ItemKey("index", f"{number}") for number in range(3)]
    begun: list[ItemKey] = []
    go_on = asyncio.Event()

    async def work(keys: Sequence[ItemKey]) -> None:
        begun.extend(keys)
        await go_on.wait()

    async def is_healthy() -> bool:
        return producer.healthy

    async def all_begun() -> bool:
        return len(begun) == 4

    producer = KafkaBus(kafka, prefix=topic_prefix).producer()
    await producer.start()
    await until(is_healthy, "the producer is connected")
    try:
        async with working(kafka, topic_prefix, work) as streams:

            async def two_wait() -> bool:
                return sorted(streams.waiting(), key=lambda key: key.file_id) == [second, third]

            # What is begun may be put off, and is then to be taken again.
            for key in (first, second, second, second, third):
                await (await producer.send(INGESTION_WORK.name, "a/1", encode_work([key]), []))
            await until(two_wait, "the items are read")
            await (await producer.send(INGESTION_WORK.name, "a/1", encode_work([first]), []))
            go_on.set()
            await until(all_begun, "the items are begun")
            waiting = streams.waiting()
    finally:
        await producer.stop()

    assert (begun, waiting) == ([first, second, third, first], [])


def test_the_lag_is_known_before_anything_is_acknowledged() -> None:
    assert lag({"a": 12, "b": 7, "c": 3}, {"a": 9, "b": None, "c": 3}) == 3 + 7
    assert lag({"a": 4}, {"a": 5}) == 0
    assert lag({"a": 4}, {"a": -1}) == 4


@pytest.mark.slow(
    covered_by="integration/eventing/test_service.py::test_dead_letters_lag_and_outbox_are_among_the_metrics"
)
async def test_a_worker_that_hangs_has_a_lag(kafka: str, topic_prefix: str) -> None:
    await create_topics(kafka, topic_prefix, topics=(INGESTION_WORK,))
    producer = KafkaBus(kafka, prefix=topic_prefix).producer()

    async def is_healthy() -> bool:
        return producer.healthy

    await producer.start()
    await until(is_healthy, "the producer is connected")
    try:
        for number in range(60):
            await (await producer.send(INGESTION_WORK.name, "a/1", encode_work([ItemKey("index", f"{number}")]), []))

        async def hang(_: Sequence[ItemKey]) -> None:
            await asyncio.Event().wait()

        async def has_lag() -> bool:
            return metric("aes_consumer_lag_messages", group="ingestion-worker", topic="ingestion-work") > 0

        async with working(kafka, topic_prefix, hang) as streams:
            measuring = asyncio.create_task(streams.measure())
            await until(has_lag, "what is not acknowledged is counted")
            measuring.cancel()
    finally:
        await producer.stop()
