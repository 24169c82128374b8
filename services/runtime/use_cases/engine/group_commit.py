"""Coalesces what arrives while a transaction is in flight into the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import structlog

from services.runtime.domain.ports import StoreUnavailable

T = TypeVar("T")
R = TypeVar("R")

_log = structlog.get_logger("runtime.group_commit")


class GroupCommit(Generic[T, R]):
    """One batch is in flight at a time; a batch that fails is tried again item by item.

    So a bad item fails alone. An outage fails the whole batch at once: trying each item would only take longer.
    """

    def __init__(self, commit: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, limit: int = 64) -> None:
        self._commit = commit
        self._limit = limit
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._draining: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """The item's own result or error. The item is committed even when this wait is cancelled."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        try:
            while self._waiting:
                size = min(self._limit, len(self._waiting))
                await self._flush([self._waiting.popleft() for _ in range(size)])
        finally:
            self._draining = None

    async def _flush(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._commit([item for item, _ in batch])
        except Exception as problem:
            if len(batch) == 1 or isinstance(problem, StoreUnavailable):
                _fail(batch, problem)
                return
            _log.warning("batch.split", size=len(batch), problem=repr(problem))
            for single in batch:
                await self._flush([single])
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _fail(batch: Sequence[tuple[T, asyncio.Future[R]]], problem: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(problem)
