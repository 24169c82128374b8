"""The first connections of a process whose broker starts beside it."""

import asyncio

from deploy.local.ports import choose_free
from libs.eventing import KafkaConnection
from libs.eventing._kafka_connection import BrokerArrival
from tests.support.waiting import WITHIN


async def test_connections_wait_for_a_broker_that_listens() -> None:
    port = choose_free()
    # The first of the servers never comes.
    arrival = BrokerArrival(KafkaConnection(servers=f"127.0.0.1:1, 127.0.0.1:{port}"), seconds=WITHIN)
    asked = asyncio.Event()

    async def refused() -> bool:
        asked.set()
        return False

    listens, arrival._listens = arrival._listens, refused  # type: ignore[method-assign]
    waiting = [asyncio.create_task(arrival.wait()) for _ in range(2)]
    await asked.wait()
    assert not any(each.done() for each in waiting)

    arrival._listens = listens  # type: ignore[method-assign]
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", port):
        await asyncio.gather(*waiting)


async def test_a_broker_that_stays_away_holds_connections_back_once() -> None:
    arrival = BrokerArrival(KafkaConnection(servers="127.0.0.1:1"), seconds=0)
    await arrival.wait()
    looked: list[bool] = []

    async def listens() -> bool:
        looked.append(True)
        return False

    arrival._listens = listens  # type: ignore[method-assign]
    await arrival.wait()
    assert not looked
