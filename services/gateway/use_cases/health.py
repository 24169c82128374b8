"""Reports the services' health and their consumer groups' lag."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, Generic, TypeVar

import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.operations import ConsumerState, ConsumerStates, Replica, ServiceState, ServiceStates
from libs.contracts.timestamps import format_time
from libs.eventing.bus import BusUnavailable
from libs.eventing.lag import GroupLag
from services.gateway.domain.operations import view_of

_log = structlog.get_logger("operations")
T = TypeVar("T")
FRESH_SECONDS: Final = 2.0
FRESH_LAG_SECONDS: Final = 5.0
_LAG_SECONDS: Final = 12.0


ReadReplicas = Callable[[], Awaitable[Mapping[str, Sequence[Replica]]]]
"""All processes with known addresses, by service. Never raises, and answers within a few seconds."""
ReadLag = Callable[[], Awaitable[Sequence[GroupLag]]]
"""Returns the lag of the consumer groups. Raises ``BusUnavailable``."""


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

    async def services(self, reader: Identity) -> ServiceStates:
        """Returns the health by replica for operators, and by service for companies. Raises ``PermissionDenied``."""
        view = view_of(reader)
        replicas, checked_at = await self._replicas.get()
        services = [_state(name, each, view.is_whole) for name, each in replicas.items()]
        return ServiceStates(services=services, checked_at=checked_at)

    async def lag(self) -> ConsumerStates:
        """Returns the lag of consumer groups. Raises ``ServiceUnavailable``."""
        return await self._lag.get()

    async def _look(self) -> tuple[Mapping[str, Sequence[Replica]], str]:
        return await self._read_replicas(), format_time(self._now())

    async def _measure(self) -> ConsumerStates:
        async with answered_within(_LAG_SECONDS):
            groups = await self._read_lag()
        consumers = [ConsumerState.model_validate(group, from_attributes=True) for group in groups]
        lag = sum(each.lag for each in consumers)
        return ConsumerStates(consumers=consumers, lag=lag, measured_at=format_time(self._now()))


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


def _state(name: str, replicas: Sequence[Replica], is_whole: bool) -> ServiceState:
    ready = sum(each.status == "ready" for each in replicas)
    return ServiceState(
        service=name,
        status="ready" if ready == len(replicas) else "degraded" if ready else "unavailable",
        ready=ready,
        total=len(replicas),
        replicas=list(replicas) if is_whole else [],
    )
