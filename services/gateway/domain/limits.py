"""Limits shared by all gateways: tokens for rates, slots for open streams."""

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
    """Tokens taken from a bucket, possibly fewer than requested, and the number ``left`` in the bucket."""

    granted: int
    left: float


@dataclass(frozen=True, slots=True)
class HeldSlots:
    """The number of slots that a gateway now holds, and the number held by the ``others``."""

    held: int
    others: int


class SharedLimits(Protocol):
    """Limits shared by all gateways. Each method takes at most one round trip to the store."""

    async def take_tokens(self, holder: str, name: str, wanted: int, per_minute: int) -> Grant:
        """Takes tokens from the bucket of a company or key. A bucket holds one minute's tokens and refills evenly."""

    async def hold_slots(self, company_id: str, wanted: int, limit: int) -> HeldSlots:
        """Changes this gateway's number of slots to ``wanted``, or to as many as the other gateways leave free."""

    async def renew_places(self, held: dict[str, int]) -> None:
        """Renews this gateway's slots, given by company. Slots become free if they aren't renewed for 30 s."""

    async def used(self, company_id: str, per_minute: dict[str, int]) -> dict[str, int]:
        """Returns the number of tokens missing from each rate's bucket, and of slots held by all gateways."""
