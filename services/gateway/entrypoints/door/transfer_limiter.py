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
class TransferLimits:
    """``all`` must stay below the size of the pool for streams of the client of upstreams.

    ``anonymous``: for all callers together who follow links.
    """

    all: int = 192
    company: int = 64
    key: int = 48
    anonymous: int = 96


class TransferLimiter:
    """Limits transfers per key and per company, so that callers who stall do not keep the others out."""

    def __init__(self, limits: TransferLimits | None = None) -> None:
        self._limits = limits or TransferLimits()
        self._count = 0
        self._by_holder: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def acquire(self, caller: Identity) -> Iterator[None]:
        """Raises ``RateLimited`` above the caller's limit, ``ServiceUnavailable`` when there are too many in all."""
        held = self._held_by(caller)
        for holder, limit in held.items():
            if self._by_holder[holder] >= limit:
                message = f"{limit} uploads and downloads are under way already; wait for one of them to end."
                raise RateLimited(message, retry_after=_RETRY_SECONDS)
        if self._count >= self._limits.all:
            raise ServiceUnavailable("Too many uploads and downloads are under way.", retry_after=_RETRY_SECONDS)
        self._count += 1
        self._by_holder.update(held.keys())
        try:
            yield
        finally:
            self._count -= 1
            self._by_holder -= Counter(held.keys())

    def _held_by(self, caller: Identity) -> dict[tuple[str, str], int]:
        if not caller.company_id:
            return {("anonymous", ""): self._limits.anonymous}
        return {
            ("company", caller.company_id): self._limits.company,
            ("key", caller.key_id): self._limits.key,
        }
