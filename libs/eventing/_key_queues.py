"""Queues of work by key."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class KeyQueues(Generic[K, T]):
    """Works on the items of a key one after the other, and on keys concurrently: each has a task while it has items.

    ``work`` handles its own failures: one that it raises drops what waits behind the item.
    """

    def __init__(self, work: Callable[[T], Awaitable[None]], *, name: str) -> None:
        self._work = work
        self._name = name
        self._waiting: dict[K, deque[T]] = {}
        self._tasks: dict[K, asyncio.Task[None]] = {}

    @property
    def keys(self) -> Collection[K]:
        """The keys that have items."""
        return self._waiting.keys()

    def put(self, key: K, item: T) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append(item)
            return
        self._waiting[key] = deque((item,))
        self._tasks[key] = asyncio.create_task(self._run(key), name=self._name)

    def drop_waiting(self, key: K) -> None:
        """Drops the items of a key that have not begun."""
        waiting = self._waiting[key]
        while len(waiting) > 1:
            waiting.pop()

    def task(self, key: K) -> "asyncio.Task[None]":
        """The task that works on a key's items."""
        return self._tasks[key]

    async def _run(self, key: K) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                await self._work(waiting[0])
                waiting.popleft()
        finally:
            self._waiting.pop(key, None)
            self._tasks.pop(key, None)
