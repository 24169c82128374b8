"""A cache of credentials that expires by time and is invalidated by events."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

CACHE_SECONDS: Final = 30.0
MISS_SECONDS: Final = 5.0
_CACHE_SIZE: Final = 10_000
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """Keeps found values for 30 s, or until an event about them (``forget``).

    Misses are kept for 5 s, or until any event: a page with a key that has ended keeps asking.
    While the bus is not ``fresh`` events may be missed, so that every value is looked up again.
    """

    def __init__(
        self,
        look_up: Callable[[K], Awaitable[V | None]],
        id_of: Callable[[V], str],
        *,
        fresh: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        self._look_up = look_up
        self._id_of = id_of
        self._fresh = fresh
        self._monotonic = monotonic
        self._found: dict[K, tuple[float, V]] = {}
        self._by_id: dict[str, K] = {}
        self._missed: dict[K, float] = {}
        self._forgotten = 0

    async def find(self, presented: K) -> V | None:
        found = self._found.get(presented)
        if found is not None and found[0] > self._monotonic() and self._fresh():
            return found[1]
        if self._missed.get(presented, 0.0) > self._monotonic() and self._fresh():
            return None
        return await self._load(presented)

    def forget(self, identifier: str) -> None:
        """Drops a value, also one that a look-up under way is about to find."""
        self._forgotten += 1
        # The event may be about any of the misses: they have no ids.
        self._missed.clear()
        presented = self._by_id.pop(identifier, None)
        if presented is not None:
            self._found.pop(presented, None)

    async def _load(self, presented: K) -> V | None:
        forgotten = self._forgotten
        value = await self._look_up(presented)
        # Perhaps read before the event: good enough for this request, which was as early, but not to be kept.
        if forgotten != self._forgotten:
            return value
        if value is None:
            if len(self._missed) >= _CACHE_SIZE:
                self._missed.clear()
            self._missed[presented] = self._monotonic() + MISS_SECONDS
            return None
        self._missed.pop(presented, None)
        if len(self._found) >= _CACHE_SIZE:
            self._found.clear()
            self._by_id.clear()
        self._found[presented] = (self._monotonic() + CACHE_SECONDS, value)
        self._by_id[self._id_of(value)] = presented
        return value
