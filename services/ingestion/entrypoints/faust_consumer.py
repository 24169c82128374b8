"""Faust's consumer, which rests like the other members of groups."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer

from libs.eventing import LoneMember, LongFetches

_LOOK_SECONDS: Final = 0.5


def install_resting_consumer(app: faust.App, settled: Callable[[], bool]) -> None:
    """``settled`` tells whether no process of the service comes or goes; it is called in Faust's thread."""
    # Classes of Faust's log their starts under the name of the module that they are in.
    logging.getLogger(__name__).setLevel(logging.WARNING)

    class Thread(AIOKafkaConsumerThread):
        async def on_start(self) -> None:
            await super().on_start()
            self._long_fetches = LongFetches(self._consumer)
            self._long_fetches.begin()
            LoneMember(self._consumer, wait_while_settled).begin()

        async def _fetch_records(self, *arguments: Any, **options: Any) -> Any:
            records = await super()._fetch_records(*arguments, **options)
            self._long_fetches.polled(bool(records))
            return records

    class RestingConsumer(Consumer):
        def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
            return Thread(self, loop=self.loop, beacon=self.beacon)

    async def wait_while_settled(seconds: float) -> None:
        # The event that it waits for elsewhere belongs to the loop of another thread.
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while settled() and loop.time() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)

    app.transport.Consumer = RestingConsumer  # type: ignore[misc]
