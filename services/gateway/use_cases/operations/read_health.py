"""Health of the services: of each replica for operators, in short for companies."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from libs.contracts.identity import Identity
from services.gateway.domain.operations import ReplicaHealth, view_of
from services.gateway.use_cases.operations.ports import ServiceHealth
from services.gateway.use_cases.operations.shared_answer import SharedAnswer

FRESH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthOfService:
    """``ready`` and ``total`` count replicas; these are None for those who may not see them."""

    service: str
    status: Literal["ready", "degraded", "unavailable"]
    ready: int
    total: int
    replicas: Sequence[ReplicaHealth] | None


@dataclass(frozen=True, slots=True)
class HealthReport:
    services: Sequence[HealthOfService]
    checked_at: datetime


class ReadHealth:
    """All who look within two seconds share one answer."""

    def __init__(self, health: ServiceHealth, now: Callable[[], datetime], monotonic: Callable[[], float]) -> None:
        self._health = health
        self._now = now
        self._shared = SharedAnswer(self._look, seconds=FRESH_SECONDS, monotonic=monotonic)

    async def __call__(self, reader: Identity) -> HealthReport:
        """Raises ``PermissionDenied``."""
        view = view_of(reader)
        replicas, checked_at = await self._shared.get()
        by_service: defaultdict[str, list[ReplicaHealth]] = defaultdict(list)
        for replica in replicas:
            by_service[replica.service].append(replica)
        found = [_of_service(name, each, view.is_whole) for name, each in by_service.items()]
        return HealthReport(found, checked_at)

    async def _look(self) -> tuple[Sequence[ReplicaHealth], datetime]:
        return await self._health.replicas(), self._now()


def _of_service(name: str, replicas: Sequence[ReplicaHealth], is_whole: bool) -> HealthOfService:
    ready = sum(each.status == "ready" for each in replicas)
    return HealthOfService(
        service=name,
        status="ready" if ready == len(replicas) else "degraded" if ready else "unavailable",
        ready=ready,
        total=len(replicas),
        replicas=replicas if is_whole else None,
    )
