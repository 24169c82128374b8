"""Parses the number of processes of each service."""

from collections.abc import Collection

from deploy.local.errors import StackError

VARIABLE = "AES_REPLICAS"
# All of them share one machine and one PostgreSQL, which has so many connections.
_MOST = 4


def parse_replicas(text: str, services: Collection[str]) -> dict[str, int]:
    """`runtime=2,gateway=2`, or one number for every service. Services not named have one; raises StackError."""
    counts = dict.fromkeys(services, 1)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, number = part.rpartition("=")
        named = [name] if separator else list(services)
        written = number.isascii() and number.isdecimal()
        if not written or not 1 <= int(number) <= _MOST or not counts.keys() >= set(named):
            known = ", ".join(services)
            raise StackError(
                f"{part!r} does not say how many replicas of which service there are to be.",
                f"Write such as runtime=2,gateway=2 or just 2; at most {_MOST}, of: {known}.",
            )
        counts.update(dict.fromkeys(named, int(number)))
    return counts
