"""Group members without others send fewer heartbeats."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer

# Two of them can be lost before the session ends.
_HEARTBEAT_SECONDS: Final = 3.0
WaitWhileSettled = Callable[[float], Awaitable[None]]
"""Waits that many seconds, but no longer than it is sure that no process of the service comes or goes."""


async def never_settled(_: float) -> None:
    """Waits for nothing: any number of processes may come at any time."""


class LoneMember:
    """Sends heartbeats every three seconds while it is the only member of its group and no process comes or goes.

    What a heartbeat tells a member is that partitions are to be shared anew, which only others cause.
    """

    def __init__(self, client: AIOKafkaConsumer, wait_while_settled: WaitWhileSettled = never_settled) -> None:
        self._client = client
        self._wait_while_settled = wait_while_settled
        self._members = 0
        self._answered = False

    def begin(self) -> None:
        """Called when the client has started."""
        coordinator = self._client._coordinator
        heartbeat, assign = coordinator._do_heartbeat, coordinator._perform_assignment
        rejoin = coordinator._do_rejoin_group

        async def heartbeat_seldom() -> bool:
            if self._members == 1 and self._answered:
                # The client takes it for a slow answer, after which it does not wait for its own interval.
                await self._wait_while_settled(_HEARTBEAT_SECONDS)
            self._answered = bool(await heartbeat())
            return self._answered

        async def rejoin_anew(subscription: Any) -> Any:
            self._members = 0
            return await rejoin(subscription)

        async def assign_counted(response: Any) -> Any:
            # One member is told of all, whenever there is another one or one less.
            self._members = len(response.members)
            return await assign(response)

        coordinator._do_heartbeat = heartbeat_seldom
        coordinator._do_rejoin_group = rejoin_anew
        coordinator._perform_assignment = assign_counted
