"""Takes processes of the service that have ended out of its Kafka groups."""

import asyncio
from typing import Final

import structlog

from libs.eventing import KafkaBus
from libs.eventing.bus import BusUnavailable
from libs.persistence import Presence
from libs.retry import RetryPolicy

_log = structlog.get_logger("service")
_RETRIES: Final = RetryPolicy(first=0.5, longest=5.0)


class Departures:
    """Every process of the service does it, for the groups that it is in itself."""

    def __init__(self, bus: KafkaBus, presence: Presence) -> None:
        self._groups = bus.groups()
        self._presence = presence
        self._watched: list[str] = []
        self._woken = asyncio.Event()
        presence.on_change(self._woken.set)

    def watch(self, group: str) -> None:
        """Adds a group, named without prefix. It is looked at right away: members may be left from a former process."""
        self._watched.append(group)
        self._woken.set()

    async def run(self) -> None:
        """Looks at the groups now and whenever a process is gone, until cancelled."""

        def log(problem: Exception, _attempt: int) -> None:
            _log.info("groups.not_looked_at", problem=str(problem))

        while True:
            await _RETRIES.run(self._expel, on=BusUnavailable, before_sleep=log)
            await self._woken.wait()
            self._woken.clear()

    async def _expel(self) -> None:
        if self._watched:
            await self._groups.expel(self._watched, self._presence.gone)
