"""Lag of the consumer groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from libs.eventing import GroupLag
from services.gateway.use_cases.operations.kafka_answers import answered_within
from services.gateway.use_cases.operations.ports import ConsumerGroups
from services.gateway.use_cases.operations.shared_answer import SharedAnswer

FRESH_SECONDS: Final = 5.0
_LIMIT_SECONDS: Final = 12.0


@dataclass(frozen=True, slots=True)
class LagReport:
    groups: Sequence[GroupLag]
    measured_at: datetime


class ReadLag:
    """All who look within five seconds share one answer, so that open pages do not burden Kafka."""

    def __init__(self, groups: ConsumerGroups, now: Callable[[], datetime], monotonic: Callable[[], float]) -> None:
        self._groups = groups
        self._now = now
        self._shared = SharedAnswer(self._measure, seconds=FRESH_SECONDS, monotonic=monotonic)

    async def __call__(self) -> LagReport:
        """Raises ``ServiceUnavailable``."""
        return await self._shared.get()

    async def _measure(self) -> LagReport:
        async with answered_within(_LIMIT_SECONDS):
            return LagReport(await self._groups.lag(), self._now())
