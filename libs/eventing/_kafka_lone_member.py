"""Group members without others send fewer heartbeats."""

import time
from collections.abc import Callable
from typing import Final

from aiokafka import AIOKafkaConsumer

# Two of them can be lost before the session ends.
_HEARTBEAT_SECONDS: Final = 3.0


class LoneMember:
    """Sends heartbeats every three seconds while its process is alone.

    What a heartbeat tells a member is that partitions are to be shared anew, which matters in a group of several. The
    client's own timer goes on, so that a process that others have joined is at their pace at once.
    """

    def __init__(
        self, client: AIOKafkaConsumer, alone: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._alone = alone
        self._clock = clock
        self._answered_at = float("-inf")

    def begin(self) -> None:
        """Called when the client has started."""
        coordinator = self._client._coordinator
        heartbeat = coordinator._do_heartbeat

        async def seldom() -> bool:
            asked_at = self._clock()
            if self._alone() and asked_at - self._answered_at < _HEARTBEAT_SECONDS:
                return True
            answered = bool(await heartbeat())
            self._answered_at = asked_at if answered else float("-inf")
            return answered

        coordinator._do_heartbeat = seldom
