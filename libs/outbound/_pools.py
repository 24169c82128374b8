"""Pools of keep-alive connections, so that callers don't share connections."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp

_MOST_POOLS: Final = 200


@dataclass(slots=True)
class _Pool:
    session: aiohttp.ClientSession
    users: int = 0


class ConnectionPools:
    """Keeps a client session for each of the most recently used keys. A session in use is never closed."""

    def __init__(self, new_session: Callable[[], aiohttp.ClientSession], most: int = _MOST_POOLS) -> None:
        self._new_session = new_session
        self._most = most
        self._pools: OrderedDict[Hashable, _Pool] = OrderedDict()

    @asynccontextmanager
    async def use(self, key: Hashable) -> AsyncIterator[aiohttp.ClientSession]:
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(self._new_session())
        self._pools.move_to_end(key)
        pool.users += 1
        try:
            yield pool.session
        finally:
            pool.users -= 1
            await self._close_surplus()

    async def close(self) -> None:
        while self._pools:
            _, pool = self._pools.popitem()
            await pool.session.close()

    async def _close_surplus(self) -> None:
        if len(self._pools) <= self._most:
            return
        oldest = next((key for key, pool in self._pools.items() if not pool.users), None)
        if oldest is not None:
            await self._pools.pop(oldest).session.close()
