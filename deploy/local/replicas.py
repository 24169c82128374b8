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
        known = ", ".join(services)
        if not (number.isascii() and number.isdecimal()):
            raise StackError(
                f"Invalid number of replicas {part!r}: it must be a number, or SERVICE=NUMBER.",
                "Write such as runtime=2,gateway=2, or just 2.",
            )
        if not counts.keys() >= set(named):
            raise StackError(f"Invalid number of replicas {part!r}: no service {name!r}.", f"Services: {known}.")
        if not 1 <= int(number) <= _MOST:
            raise StackError(
                f"Invalid number of replicas {part!r}: the embedded stack runs 1 to {_MOST} replicas of a service.",
                f"Name a number from 1 to {_MOST}.",
            )
        counts.update(dict.fromkeys(named, int(number)))
    return counts
