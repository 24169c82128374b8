"""Uploads and downloads under way. Each holds a connection to an upstream for as long as its caller takes."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import RateLimited, ServiceUnavailable
from libs.contracts.identity import Identity

_RETRY_SECONDS: Final = 2


@dataclass(frozen=True, slots=True)
class Shares:
    """``all`` is below the number of connections for streams that the client of upstreams opens: nobody waits for one.

    ``strangers`` are those who follow links.
    """

    all: int = 192
    company: int = 64
    key: int = 48
    strangers: int = 96


class Transfers:
    """Lets nobody have so many that callers who stall keep the others out."""

    def __init__(self, shares: Shares | None = None) -> None:
        self._shares = shares or Shares()
        self._count = 0
        self._by_holder: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def one_of(self, caller: Identity) -> Iterator[None]:
        """Raises ``RateLimited`` above the caller's share, ``ServiceUnavailable`` when there are too many in all."""
        held = self._held_by(caller)
        for holder, share in held.items():
            if self._by_holder[holder] >= share:
                message = f"{share} uploads and downloads are under way already; wait for one of them to end."
                raise RateLimited(message, retry_after=_RETRY_SECONDS)
        if self._count >= self._shares.all:
            raise ServiceUnavailable("Too many uploads and downloads are under way.", retry_after=_RETRY_SECONDS)
        self._count += 1
        self._by_holder.update(held.keys())
        try:
            yield
        finally:
            self._count -= 1
            self._by_holder.subtract(held.keys())
            for holder in held:
                if not self._by_holder[holder]:
                    del self._by_holder[holder]

    def _held_by(self, caller: Identity) -> dict[tuple[str, str], int]:
        if not caller.company_id:
            return {("strangers", ""): self._shares.strangers}
        return {
            ("company", caller.company_id): self._shares.company,
            ("key", caller.key_id): self._shares.key,
        }
