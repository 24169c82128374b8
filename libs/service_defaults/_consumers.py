"""Consumer groups of a service: one for its commands, and one for each purpose that follows other services' events."""

import asyncio
from typing import Final

import structlog

from libs.eventing import BusUnavailable, CommandRouter, ConsumerLoop, DeadLetters, EventRouter, KafkaBus, Producer
from libs.service_defaults._health import Readiness
from libs.service_defaults._supervision import supervised

_log = structlog.get_logger("service")
_MEASURE_SECONDS: Final = 5.0
Router = CommandRouter | EventRouter


class Consumers:
    """Groups are named ``<service>-<purpose>``; ``routers`` are by purpose.

    Each group is a readiness check: it holds once the group has joined.
    """

    def __init__(self, service: str, bus: KafkaBus, producer: Producer, readiness: Readiness) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self._service = service
        self._bus = bus
        self._producer = producer
        self._readiness = readiness
        self.routers: dict[str, Router] = {}
        self._lingering: set[str] = set()
        self._loops: list[ConsumerLoop] = []

    def add(self, purpose: str, router: Router, *, linger: bool = False) -> None:
        self.routers[purpose] = router
        if linger:
            self._lingering.add(purpose)

    def start(self) -> None:
        self._loops = [self._loop(purpose, router) for purpose, router in self.routers.items() if router.topics]
        self.tasks = [supervised(loop.group, loop.run, once=True) for loop in self._loops]
        self.tasks.append(supervised("consumers.measure", self._measure))

    async def stop(self, seconds: float) -> None:
        """Takes no more messages, and waits for those in work until the time is over."""
        for loop in self._loops:
            await loop.stop()
        if self._loops:
            await asyncio.wait(self.tasks[: len(self._loops)], timeout=seconds)

    def _loop(self, purpose: str, router: Router) -> ConsumerLoop:
        loop = ConsumerLoop(
            self._bus,
            router,
            DeadLetters(self._producer, consumer=self._service),
            group=f"{self._service}-{purpose}",
            topics=router.topics,
            linger=purpose in self._lingering,
        )

        async def joined() -> bool:
            return loop.joined

        self._readiness.add(f"consumer {loop.group}", joined)
        return loop

    async def _measure(self) -> None:
        """Measures the lag of the groups every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(_MEASURE_SECONDS)
            for loop in self._loops:
                try:
                    await loop.measure()
                except BusUnavailable as problem:
                    _log.debug("consumer.not_measured", group=loop.group, problem=str(problem))
