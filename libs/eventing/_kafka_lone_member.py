"""Group members without others ask the broker less often."""

import time
from collections.abc import Callable
from typing import Final

from aiokafka import AIOKafkaConsumer

# Two of them can be lost before the session ends.
_HEARTBEAT_SECONDS: Final = 3.0


class LoneMember:
    """Sends heartbeats every three seconds while its process is alone, and lets fetches wait ``fetch_wait_ms``.

    What a heartbeat tells a member is that partitions are to be shared anew, and a long fetch holds up the next one
    after that: both matter to members of a group of several. The client's own timer goes on, so that a process that
    others have joined is at their pace at once.
    """

    def __init__(
        self,
        client: AIOKafkaConsumer,
        alone: Callable[[], bool],
        *,
        fetch_wait_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._alone = alone
        self._fetch_wait_ms = fetch_wait_ms
        self._clock = clock
        self._answered_at = float("-inf")

    def begin(self) -> None:
        """Called when the client has started."""
        coordinator, fetcher = self._client._coordinator, self._client._fetcher
        heartbeat, wait_among_others = coordinator._do_heartbeat, fetcher._fetch_max_wait_ms

        async def seldom() -> bool:
            alone, asked_at = self._alone(), self._clock()
            fetcher._fetch_max_wait_ms = self._fetch_wait_ms if alone else wait_among_others
            if alone and asked_at - self._answered_at < _HEARTBEAT_SECONDS:
                return True
            answered = bool(await heartbeat())
            self._answered_at = asked_at if answered else float("-inf")
            return answered

        coordinator._do_heartbeat = seldom
