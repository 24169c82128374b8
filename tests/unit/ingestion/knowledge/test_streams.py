"""The Faust application of the streams process."""

import asyncio
from collections.abc import Sequence

from libs.eventing import KafkaConnection
from services.ingestion.domain.runs import ItemKey, RunKey
from services.ingestion.entrypoints.streams import IngestionStreams
from tests.support.waiting import until


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
