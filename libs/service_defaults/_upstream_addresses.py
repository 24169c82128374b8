"""The addresses of other services' processes: whose turn it is, and which ones do not answer."""

import time
from collections.abc import Callable
from typing import Final

from libs.contracts.errors import ServiceUnavailable

_SKIPPED_SECONDS: Final = 10.0


class UpstreamAddresses:
    """Orders the addresses of a service for one call.

    Calls go to the processes of a service in turn. A process that did not answer in time comes last for ten seconds;
    then one call tries it again, and the others as soon as it has answered.
    """

    def __init__(self, addresses: dict[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        """``addresses``: base URLs by service, separated by commas; empty for a service that is not installed."""
        self.by_service = {name: [one.strip() for one in urls.split(",")] for name, urls in addresses.items() if urls}
        self._clock = clock
        self._skipped_until: dict[str, float] = {}
        self._calls = 0

    def in_order(self, upstream: str) -> list[str]:
        """The addresses to try, best first. Raises ``ServiceUnavailable`` when the service is not installed."""
        addresses = self.by_service.get(upstream)
        if not addresses:
            raise ServiceUnavailable(f"this installation has no {upstream} service")
        if len(addresses) == 1:
            # Several processes may be behind it, so a second try may reach another one.
            return addresses * 2
        self._calls += 1
        first = self._calls % len(addresses)
        rotated = addresses[first:] + addresses[:first]
        if self._skipped_until:
            rotated.sort(key=self._is_skipped)
            if rotated[0] in self._skipped_until:
                self.skip(rotated[0])
        return rotated

    def skip(self, address: str) -> None:
        """Notes that the process did not answer in time."""
        self._skipped_until[address] = self._clock() + _SKIPPED_SECONDS

    def answered(self, address: str) -> None:
        self._skipped_until.pop(address, None)

    def _is_skipped(self, address: str) -> bool:
        return self._skipped_until.get(address, 0.0) > self._clock()
