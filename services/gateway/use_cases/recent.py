"""What look-ups of credentials found, kept for a short while."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

CACHE_SECONDS: Final = 30.0
_CACHE_SIZE: Final = 10_000
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Serves what was found for 30 s at most; it is dropped when news of it is heard (``forget``).

    While the bus is not ``fresh`` news might go unheard, so that everything is looked up again.
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
        self._forgotten = 0

    async def find(self, presented: K) -> V | None:
        found = self._found.get(presented)
        if found is None or found[0] <= self._monotonic() or not self._fresh():
            return await self._load(presented)
        return found[1]

    def forget(self, identifier: str) -> None:
        """Drop what is known of it, also what a look-up under way is about to find."""
        self._forgotten += 1
        presented = self._by_id.pop(identifier, None)
        if presented is not None:
            self._found.pop(presented, None)

    async def _load(self, presented: K) -> V | None:
        forgotten = self._forgotten
        value = await self._look_up(presented)
        if value is not None and forgotten == self._forgotten:
            if len(self._found) >= _CACHE_SIZE:
                self._found.clear()
                self._by_id.clear()
            self._found[presented] = (self._monotonic() + CACHE_SECONDS, value)
            self._by_id[self._id_of(value)] = presented
        return value
