"""Queues of work by key."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class KeyQueues(Generic[K, T]):
    """Works on the items of a key one after the other, and on keys concurrently: each has a task while it has items.

    Its length is the number of items that are not done. ``work`` handles its own failures: one that it raises drops
    what waits behind the item.
    """

    def __init__(self, work: Callable[[T], Awaitable[None]], *, name: str) -> None:
        self._work = work
        self._name = name
        self._waiting: dict[K, deque[T]] = {}
        self._tasks: dict[K, asyncio.Task[None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> Collection[K]:
        """The keys that have items."""
        return self._waiting.keys()

    def put(self, key: K, item: T) -> None:
        self._count += 1
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append(item)
            return
        self._waiting[key] = deque((item,))
        self._tasks[key] = asyncio.create_task(self._run(key), name=self._name)

    def drop_waiting(self, key: K) -> list[T]:
        """Drops the items of a key that have not begun, and returns them."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return []
        first, *dropped = waiting
        waiting.clear()
        waiting.append(first)
        self._count -= len(dropped)
        return dropped

    def task(self, key: K) -> "asyncio.Task[None]":
        """The task that works on a key's items."""
        return self._tasks[key]

    async def _run(self, key: K) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                await self._work(waiting[0])
                waiting.popleft()
                self._count -= 1
        finally:
            self._count -= len(waiting)
            self._waiting.pop(key, None)
            self._tasks.pop(key, None)
