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
    """Tokens taken from a bucket, fewer than requested if it runs empty, and the number ``left`` in it."""

    granted: int
    left: float


@dataclass(frozen=True, slots=True)
class HeldPlaces:
    """The slots that a gateway holds after asking, and those of the ``others``."""

    held: int
    others: int


class SharedLimits(Protocol):
    """The state of limits shared by all gateways. Every method takes at most one round trip."""

    async def take_tokens(self, holder: str, name: str, wanted: int, per_minute: int) -> Grant:
        """The bucket of a company or key holds a minute's worth and refills evenly."""

    async def hold_places(self, company_id: str, wanted: int, limit: int) -> HeldPlaces:
        """Changes this gateway's slots to ``wanted``, or to what the others leave of the limit."""

    async def renew_places(self, held: dict[str, int]) -> None:
        """Reports this gateway's slots by company. Slots that aren't renewed for 30 s are free again."""

    async def used(self, company_id: str, per_minute: dict[str, int]) -> dict[str, int]:
        """Tokens missing in the buckets of those rates, and the slots held by all gateways."""
