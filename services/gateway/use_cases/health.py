"""Reports the services' health and their consumer groups' lag."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, Literal, TypeVar

import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.eventing.bus import BusUnavailable
from libs.eventing.lag import GroupLag
from services.gateway.domain.operations import ReplicaHealth, view_of

_log = structlog.get_logger("operations")
T = TypeVar("T")
FRESH_SECONDS: Final = 2.0
FRESH_LAG_SECONDS: Final = 5.0
_LAG_SECONDS: Final = 12.0


ReadReplicas = Callable[[], Awaitable[Sequence[ReplicaHealth]]]
"""Returns the health of all known processes within a few seconds. Never raises."""
ReadLag = Callable[[], Awaitable[Sequence[GroupLag]]]
"""Returns the lag of the consumer groups. Raises ``BusUnavailable``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthOfService:
    """A service's health. ``ready`` and ``total`` count its replicas. They're None for callers that can't see them."""

    service: str
    status: Literal["ready", "degraded", "unavailable"]
    ready: int
    total: int
    replicas: Sequence[ReplicaHealth] | None


@dataclass(frozen=True, slots=True)
class HealthReport:
    services: Sequence[HealthOfService]
    checked_at: datetime


@dataclass(frozen=True, slots=True)
class LagReport:
    groups: Sequence[GroupLag]
    measured_at: datetime


class Health:
    """Caches health for two seconds and lag for five, so that many open pages cost next to nothing."""

    def __init__(
        self,
        read_replicas: ReadReplicas,
        read_lag: ReadLag,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._read_replicas = read_replicas
        self._read_lag = read_lag
        self._now = now
        self._replicas = SharedAnswer(self._look, seconds=FRESH_SECONDS, monotonic=monotonic)
        self._lag = SharedAnswer(self._measure, seconds=FRESH_LAG_SECONDS, monotonic=monotonic)

    async def services(self, reader: Identity) -> HealthReport:
        """Returns the health by replica for operators, and by service for companies. Raises ``PermissionDenied``."""
        view = view_of(reader)
        replicas, checked_at = await self._replicas.get()
        by_service: defaultdict[str, list[ReplicaHealth]] = defaultdict(list)
        for replica in replicas:
            by_service[replica.service].append(replica)
        found = [_of_service(name, each, view.is_whole) for name, each in by_service.items()]
        return HealthReport(found, checked_at)

    async def lag(self) -> LagReport:
        """Returns the lag of consumer groups. Raises ``ServiceUnavailable``."""
        return await self._lag.get()

    async def _look(self) -> tuple[Sequence[ReplicaHealth], datetime]:
        return await self._read_replicas(), self._now()

    async def _measure(self) -> LagReport:
        async with answered_within(_LAG_SECONDS):
            return LagReport(await self._read_lag(), self._now())


class SharedAnswer(Generic[T]):
    """Asks once on behalf of all waiting callers, and returns the same answer until it's ``seconds`` old.

    Raises a failure for every waiting caller, and doesn't cache it.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]], *, seconds: float, monotonic: Callable[[], float]) -> None:
        self._ask = ask
        self._seconds = seconds
        self._monotonic = monotonic
        self._asking: asyncio.Task[T] | None = None
        self._answered_at = 0.0

    async def get(self) -> T:
        if self._asking is None or self._is_over(self._asking):
            self._asking = asyncio.create_task(self._run())
        # Shielded: one caller may disconnect while others are still waiting.
        return await asyncio.shield(self._asking)

    async def _run(self) -> T:
        answer = await self._ask()
        self._answered_at = self._monotonic()
        return answer

    def _is_over(self, asking: asyncio.Task[T]) -> bool:
        if not asking.done():
            return False
        failed = asking.cancelled() or asking.exception() is not None
        return failed or self._monotonic() - self._answered_at >= self._seconds


@asynccontextmanager
async def answered_within(seconds: float) -> AsyncIterator[None]:
    """Limits the duration of an operator's request to Kafka.

    Raises ``ServiceUnavailable`` if Kafka is unreachable, refuses the request, or takes longer.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except (BusUnavailable, TimeoutError) as problem:
        # The reason may contain addresses and user names, which only belong in the log.
        _log.warning("operations.kafka_unavailable", problem=str(problem) or type(problem).__name__)
        raise ServiceUnavailable("Can't reach Kafka. See the gateway's log for the reason.", retry_after=5) from problem


def _of_service(name: str, replicas: Sequence[ReplicaHealth], is_whole: bool) -> HealthOfService:
    ready = sum(each.status == "ready" for each in replicas)
    return HealthOfService(
        service=name,
        status="ready" if ready == len(replicas) else "degraded" if ready else "unavailable",
        ready=ready,
        total=len(replicas),
        replicas=replicas if is_whole else None,
    )
