"""The addresses of other services' processes."""

from libs.contracts.errors import ServiceUnavailable


class UpstreamAddresses:
    """Orders the addresses of a service for one call: calls go to its processes in turn."""

    def __init__(self, addresses: dict[str, str]) -> None:
        """``addresses``: base URLs by service, separated by commas; empty for a service that is not installed."""
        self._addresses = {name: [one.strip() for one in urls.split(",")] for name, urls in addresses.items() if urls}
        self._calls = 0

    def installed(self, upstream: str) -> bool:
        return upstream in self._addresses

    def in_order(self, upstream: str) -> list[str]:
        """The addresses to try, best first. Raises ``ServiceUnavailable`` when the service is not installed."""
        addresses = self._addresses.get(upstream)
        if not addresses:
            raise ServiceUnavailable(f"this installation has no {upstream} service")
        if len(addresses) == 1:
            # Several processes may be behind it, so a second try may reach another one.
            return addresses * 2
        self._calls += 1
        first = self._calls % len(addresses)
        return addresses[first:] + addresses[:first]
