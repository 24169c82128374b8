"""Acknowledged messages may be lost: the states of items in the database make up for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from libs.contracts.topics import INGESTION_WORK
from libs.eventing import KafkaBus, KafkaConnection
from libs.eventing.administration import create_topics
from services.ingestion.domain.runs import ItemKey, RunKey, encode_work
from services.ingestion.entrypoints.streams import IngestionStreams, lag
from tests.support.waiting import until

Items = Callable[[Sequence[ItemKey]], Awaitable[None]]


@asynccontextmanager
async def working(kafka: str, prefix: str, items: Items) -> AsyncIterator[IngestionStreams]:
    async def no_run(_: RunKey) -> None:
        raise AssertionError("there is no run in this test")

    streams = IngestionStreams(
        kafka=KafkaConnection(servers=kafka),
        prefix=prefix,
        member_id="test-1",
        items=items,
        run=no_run,
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


@asynccontextmanager
async def sending(kafka: str, prefix: str) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    producer = KafkaBus(kafka, prefix=prefix).producer()

    async def is_healthy() -> bool:
        return producer.healthy

    async def send(keys: Sequence[ItemKey], company_id: str = "company") -> None:
        headers = [("ce_companyid", company_id.encode())]
        await (await producer.send(INGESTION_WORK.name, "a/1", encode_work(keys), headers))

    await producer.start()
    try:
        await until(is_healthy, "the producer is connected")
        yield send
    finally:
        await producer.stop()


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

    async with sending(kafka, topic_prefix) as send:
        async with working(kafka, topic_prefix, raise_at):
            await send([lost])
            await until(has_raised, "the work is taken, in vain")
        async with working(kafka, topic_prefix, hear) as streams:
            await send([next_one])
            await until(has_heard, "the next work is taken")
            directory_left = await asyncio.to_thread(Path(streams.app.conf.datadir).exists)

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

    async def all_begun() -> bool:
        return len(begun) == 4

    async with sending(kafka, topic_prefix) as send, working(kafka, topic_prefix, work) as streams:

        async def all_are_read() -> bool:
            return streams.app.monitor.events_total == 6

        # What is begun may be put off, and is then to be taken again.
        for key in (first, second, second, second, third, first):
            await send([key])
        await until(all_are_read, "the items are read")
        go_on.set()
        await until(all_begun, "the items are begun")

    assert begun == [first, second, third, first]


async def test_a_message_is_acknowledged_after_its_work(kafka: str, topic_prefix: str) -> None:
    await create_topics(kafka, topic_prefix, topics=(INGESTION_WORK,))
    done, begun = ItemKey("index", "done"), ItemKey("index", "begun")
    heard: list[ItemKey] = []
    stuck = asyncio.Event()

    async def stick_at_begun(keys: Sequence[ItemKey]) -> None:
        if keys == [begun]:
            stuck.set()
            await asyncio.Event().wait()

    async def hear(keys: Sequence[ItemKey]) -> None:
        heard.extend(keys)

    async def has_heard() -> bool:
        return bool(heard)

    async with sending(kafka, topic_prefix) as send:
        async with working(kafka, topic_prefix, stick_at_begun):
            await send([done])
            await send([begun])
            await stuck.wait()
        async with working(kafka, topic_prefix, hear):
            await until(has_heard, "the unfinished work is taken")

    assert heard == [begun]


async def test_a_companys_messages_do_not_keep_another_company_waiting(kafka: str, topic_prefix: str) -> None:
    await create_topics(kafka, topic_prefix, topics=(INGESTION_WORK,))
    quiet = ItemKey("index", "quiet")
    begun: list[ItemKey] = []

    async def hang(keys: Sequence[ItemKey]) -> None:
        begun.extend(keys)
        await asyncio.Event().wait()

    async def has_begun() -> bool:
        return quiet in begun

    async with sending(kafka, topic_prefix) as send, working(kafka, topic_prefix, hang):
        for number in range(40):
            await send([ItemKey("index", f"{number}")], company_id="busy")
        await send([quiet], company_id="quiet")
        await until(has_begun, "the other company's work is begun")

    assert begun == [ItemKey("index", "0"), quiet]


def test_the_lag_is_what_no_actor_has_taken() -> None:
    assert lag({"a": 12, "b": 7, "c": 3}, {"a": 9, "c": 2}) == 2
    assert lag({"a": 4}, {"a": 5}) == 0
    assert lag({}, {"a": 5}) == 0
