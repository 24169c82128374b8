"""Reports the services' health, consumer lag and internal errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, Generic, TypeVar

import orjson
import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.operations import (
    ConsumerState,
    ConsumerStates,
    Failure,
    FailureList,
    Replica,
    ServiceState,
    ServiceStates,
)
from libs.contracts.timestamps import format_time
from libs.eventing.bus import BusUnavailable
from libs.eventing.lag import GroupLag
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from libs.service_defaults.internal_routes import FAILURES_PATH
from services.gateway.domain.operations import view_of

_log = structlog.get_logger("operations")
T = TypeVar("T")
FRESH_SECONDS: Final = 2.0
FRESH_LAG_SECONDS: Final = 5.0
_LAG_SECONDS: Final = 12.0
_FAILING: Final = ("runtime", "ingestion", "artifacts", "registry", "timeline")
_MOST_FAILURES: Final = 100
_FAILURES_SECONDS: Final = 4.0


ReadReplicas = Callable[[], Awaitable[Mapping[str, Sequence[Replica]]]]
"""Returns all processes with known addresses, by service. Never raises an error."""
ReadLag = Callable[[], Awaitable[Sequence[GroupLag]]]
"""Returns the lag of all consumer groups. Raises ``BusUnavailable`` if Kafka is unreachable."""


class Health:
    """Reports the installation's state. Caches health for two seconds and lag for five."""

    def __init__(
        self,
        read_replicas: ReadReplicas,
        read_lag: ReadLag,
        upstreams: UpstreamClient,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._read_replicas = read_replicas
        self._read_lag = read_lag
        self._upstreams = upstreams
        self._now = now
        self._replicas = SharedAnswer(self._list_replicas, seconds=FRESH_SECONDS, monotonic=monotonic)
        self._lag = SharedAnswer(self._measure, seconds=FRESH_LAG_SECONDS, monotonic=monotonic)

    async def services(self, reader: Identity) -> ServiceStates:
        """Returns the services' health. Only operators see the individual replicas.

        Raises ``PermissionDenied`` for a caller that may see only its own data.
        """
        view = view_of(reader)
        replicas, checked_at = await self._replicas.get()
        services = [_state(name, each, view.is_whole) for name, each in replicas.items()]
        return ServiceStates(services=services, checked_at=checked_at)

    async def lag(self) -> ConsumerStates:
        """Returns the lag of all consumer groups. Raises ``ServiceUnavailable`` if it can't be read."""
        return await self._lag.get()

    async def failures(self, reader: Identity, correlation_id: str | None) -> FailureList:
        owners = [owner for owner in _FAILING if self._upstreams.installed(owner)]
        found = await asyncio.gather(*(self._failures_of(owner, reader, correlation_id) for owner in owners))
        failures = [failure for each in found if each is not None for failure in each]
        failures.sort(key=lambda failure: failure.at, reverse=True)
        unreachable = [owner for owner, each in zip(owners, found, strict=True) if each is None]
        return FailureList(failures=failures[:_MOST_FAILURES], unreachable=unreachable)

    async def _list_replicas(self) -> tuple[Mapping[str, Sequence[Replica]], str]:
        return await self._read_replicas(), format_time(self._now())

    async def _measure(self) -> ConsumerStates:
        async with answered_within(_LAG_SECONDS):
            groups = await self._read_lag()
        consumers = [ConsumerState.model_validate(group, from_attributes=True) for group in groups]
        lag = sum(each.lag for each in consumers)
        return ConsumerStates(consumers=consumers, lag=lag, measured_at=format_time(self._now()))

    async def _failures_of(self, owner: str, reader: Identity, correlation_id: str | None) -> list[Failure] | None:
        params = {"limit": _MOST_FAILURES, **({} if correlation_id is None else {"correlation_id": correlation_id})}
        try:
            answer = await self._upstreams.get(owner, FAILURES_PATH, reader, params, deadline=_FAILURES_SECONDS)
            return [Failure(**failure, service=owner) for failure in orjson.loads(checked(answer))]
        except ServiceUnavailable as problem:
            _log.warning("failures.not_read", service=owner, problem=problem.message)
            return None


class SharedAnswer(Generic[T]):
    """Shares a request among all waiting callers, and returns the same answer until it's ``seconds`` old.

    Failures are raised for every waiting caller, and aren't cached.
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
    """Limits the duration of a request to Kafka. Raises ``ServiceUnavailable`` if the request fails or takes longer."""
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
