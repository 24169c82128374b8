"""A service's consumer groups, for commands and for events."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import structlog

from libs.eventing import CommandRouter, ConsumerLoop, EventRouter, KafkaBus
from libs.eventing.batches import BatchConsumer, BatchHandler
from libs.eventing.bus import BusUnavailable, Producer
from libs.eventing.dead_letters import DeadLetters
from libs.persistence import Presence
from libs.retry import RetryPolicy
from libs.service_defaults._health import Check, Readiness
from libs.service_defaults._supervision import Hook, supervised, unless_stopped

_RETRIES: Final = RetryPolicy(first=0.5, longest=5.0)
_log = structlog.get_logger("service")
_MEASURE_SECONDS: Final = 5.0
Router = CommandRouter | EventRouter
Member = ConsumerLoop | BatchConsumer[Any]


class DeadMemberReaper:
    """Removes dead processes of the service from the Kafka groups that this process belongs to."""

    def __init__(self, bus: KafkaBus, presence: Presence) -> None:
        self._groups = bus.groups()
        self._presence = presence
        self._watched: list[str] = []
        self._woken = asyncio.Event()
        presence.on_change(self._woken.set)

    def watch(self, group: str) -> None:
        """Starts watching a group. Also checks the group now, since an earlier process may have left members."""
        self._watched.append(group)
        self._woken.set()

    async def run(self) -> None:
        """Checks the groups now and whenever a process dies, until cancelled."""

        def log(problem: Exception, _attempt: int) -> None:
            _log.info("groups.check_failed", problem=str(problem))

        while True:
            await _RETRIES.run(self._expel, on=BusUnavailable, before_sleep=log)
            await self._woken.wait()
            self._woken.clear()

    async def _expel(self) -> None:
        if self._watched:
            await self._groups.expel(self._watched, self._presence.gone)


class Consumers:
    """This process's members of the service's consumer groups, which are named ``<service>-<purpose>``.

    Each group has a readiness check, which passes once this process has joined the group.
    """

    def __init__(
        self, service: str, bus: KafkaBus, producer: Producer, readiness: Readiness, reaper: DeadMemberReaper
    ) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self._service = service
        self._bus = bus
        self._producer = producer
        self._readiness = readiness
        self._reaper = reaper
        self.routers: dict[str, Router] = {}
        self._lingering: set[str] = set()
        self._conditions: dict[str, Hook] = {}
        self._stopping = asyncio.Event()
        self._batches: dict[str, tuple[BatchHandler[Any], Sequence[str], str]] = {}
        self._members: list[Member] = []

    def add(self, purpose: str, router: Router, *, after: Hook | None = None, linger: bool = False) -> None:
        """Registers a router. Its group is joined once ``after`` has returned."""
        self.routers[purpose] = router
        if after is not None:
            self._conditions[self._group(purpose)] = after
        if linger:
            self._lingering.add(purpose)

    def add_batches(self, purpose: str, handler: BatchHandler[Any], topics: Sequence[str], *, role: str) -> None:
        """Registers a handler of batches in processes with this role."""
        self._batches[purpose] = (handler, topics, role)

    def start(self, *, routers: bool, roles: frozenset[str] | None) -> None:
        """Joins the groups of routers, if ``routers`` is set, and of batch handlers with these roles (None for all)."""
        if routers:
            self._members += [self._loop(purpose, router) for purpose, router in self.routers.items() if router.topics]
        self._members += [
            self._batch_consumer(purpose, handler, topics)
            for purpose, (handler, topics, role) in self._batches.items()
            if roles is None or role in roles
        ]
        for member in self._members:
            self._readiness.add(f"consumer {member.group}", _joined(member))
            self._reaper.watch(member.group)
        self.tasks = [supervised(member.group, partial(self._run, member), once=True) for member in self._members]
        self.tasks.append(supervised("consumers.measure", self._measure))

    async def stop(self, seconds: float) -> None:
        """Stops fetching and waits up to ``seconds`` for messages in progress."""
        self._stopping.set()
        for member in self._members:
            await member.stop()
        if self._members:
            await asyncio.wait(self.tasks[: len(self._members)], timeout=seconds)

    async def _run(self, member: Member) -> None:
        condition = self._conditions.get(member.group)
        if condition is None or await unless_stopped(condition(), self._stopping):
            await member.run()

    def _group(self, purpose: str) -> str:
        return f"{self._service}-{purpose}"

    def _loop(self, purpose: str, router: Router) -> ConsumerLoop:
        return ConsumerLoop(
            self._bus,
            router,
            DeadLetters(self._producer, consumer=self._service),
            group=self._group(purpose),
            topics=router.topics,
            linger=purpose in self._lingering,
        )

    def _batch_consumer(self, purpose: str, handler: BatchHandler[Any], topics: Sequence[str]) -> BatchConsumer[Any]:
        letters = DeadLetters(self._producer, consumer=self._service)
        return BatchConsumer(self._bus, handler, letters, group=self._group(purpose), topics=topics)

    async def _measure(self) -> None:
        """Measures the lag every few seconds until cancelled."""
        while True:
            await asyncio.sleep(_MEASURE_SECONDS)
            for member in self._members:
                try:
                    await member.measure()
                except BusUnavailable as problem:
                    _log.debug("consumer.not_measured", group=member.group, problem=str(problem))


def _joined(member: Member) -> Check:
    async def joined() -> bool:
        return member.joined

    return joined
