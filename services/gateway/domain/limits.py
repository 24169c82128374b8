"""Limits that all gateways share: token buckets for rates, and slots for open streams."""

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
    """The number of tokens taken from a bucket, possibly fewer than requested, and the number left in the bucket."""

    granted: int
    left: float


@dataclass(frozen=True, slots=True)
class HeldSlots:
    """A company's stream slots: the number that this gateway holds, and the number that other gateways hold."""

    held: int
    others: int


class SharedLimits(Protocol):
    """Stores the limits that all gateways share."""

    async def take_tokens(self, holder: str, name: str, wanted: int, per_minute: int) -> Grant:
        """Takes tokens from a bucket, which holds tokens for one minute and refills steadily."""

    async def hold_slots(self, company_id: str, wanted: int, limit: int) -> HeldSlots:
        """Changes the number of slots that this gateway holds to ``wanted``, or to as many as are free."""

    async def renew_slots(self, held: dict[str, int]) -> None:
        """Renews the slots that this gateway holds for each company. Slots that aren't renewed for 30 s become free."""

    async def used(self, company_id: str, per_minute: dict[str, int]) -> dict[str, int]:
        """Returns how many tokens are missing from each rate's bucket, and how many slots all gateways hold."""
