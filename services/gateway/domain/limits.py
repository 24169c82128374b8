"""Limits that hold for all gateways together: tokens for rates, places for what is open at once."""

from dataclasses import dataclass
from typing import Final, Protocol

REQUESTS: Final = "requests_per_minute"
TURNS: Final = "turns_per_minute"
STREAMS: Final = "streams"
API_KEYS: Final = "api_keys"
REQUESTS_OF_KEY: Final = "requests_per_minute_of_key"
RATES: Final = (REQUESTS, TURNS)


@dataclass(frozen=True, slots=True)
class Grant:
    """Tokens taken from a bucket, fewer than wanted when it is empty, and what is ``left`` there."""

    granted: int
    left: float


@dataclass(frozen=True, slots=True)
class HeldPlaces:
    """Places that a gateway holds after asking, and those that the ``others`` hold."""

    held: int
    others: int


class SharedLimits(Protocol):
    """The state of limits that all gateways share. Every method is one round trip at most."""

    async def take_tokens(self, holder: str, name: str, wanted: int, per_minute: int) -> Grant:
        """A bucket of a company or a key holds a minute's worth and is refilled evenly."""

    async def hold_places(self, company_id: str, wanted: int, limit: int) -> HeldPlaces:
        """Changes the number of this gateway's places to ``wanted``, or to what the others leave of the limit."""

    async def renew_places(self, held: dict[str, int]) -> None:
        """States the places of this gateway by company. Those that nobody renews for 30 s are free again."""

    async def used(self, company_id: str, per_minute: dict[str, int]) -> dict[str, int]:
        """Tokens that are missing in the buckets of those rates, and the places held by all gateways."""
