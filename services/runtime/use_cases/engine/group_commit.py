"""Group commit, the claims that depend on it, and retries during outages."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, Self, TypeVar

import structlog

from libs.contracts.errors import StoreUnavailable
from libs.fairness import FairQueue
from libs.retry import RetryPolicy

T = TypeVar("T")
R = TypeVar("R")

_log = structlog.get_logger("runtime.turns")
_LINGER_SECONDS: Final = 0.003
_BUSY_SECONDS: Final = 0.1
STORE_RETRIES: Final = RetryPolicy(first=0.2, longest=2.0)


async def until_available(call: Callable[[], Awaitable[T]], policy: RetryPolicy = STORE_RETRIES) -> T:
    """Retries an idempotent storage call during outages, until it succeeds or the task is cancelled."""

    def log(problem: Exception, _attempt: int) -> None:
        _log.warning("database.unreachable", problem=str(problem))

    return await policy.run(call, on=StoreUnavailable, before_sleep=log)


class GroupCommit(Generic[T, R]):
    """Commits items in batches, one batch at a time. Items that arrive during a commit share the next batch.

    ``commit`` returns each item's result, or raises if all items have failed. Failed items are retried one by one,
    except during an outage. If more than ``limit`` items are waiting, companies take turns.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]],
        company_of: Callable[[T], str],
        *,
        limit: int = 64,
    ) -> None:
        self._commit = commit
        self._company_of = company_of
        self._limit = limit
        self._waiting = FairQueue[tuple[T, asyncio.Future[R]]]()
        self._draining: asyncio.Task[None] | None = None
        self._busy_until = float("-inf")

    async def submit(self, item: T) -> R:
        """Commits the item and returns its result, or raises its error. Cancelling the call doesn't stop the commit."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.put(self._company_of(item), (item, future))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                if len(self._waiting) < self._limit and loop.time() < self._busy_until:
                    await asyncio.sleep(_LINGER_SECONDS)
                batch = self._waiting.take(self._limit)
                await self._flush(batch)
                if len(batch) > 1:
                    self._busy_until = loop.time() + _BUSY_SECONDS
        finally:
            self._draining = None

    async def _flush(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        results: Sequence[R | Exception]
        try:
            results = await self._commit([item for item, _ in batch])
        except Exception as problem:
            results = [problem] * len(batch)
        if len(results) != len(batch):
            # The batch is committed. Retrying its items one by one would commit them twice.
            missing = RuntimeError(f"{len(results)} results for {len(batch)} committed items")
            for _, future in batch:
                _end(future, missing)
            return
        again = []
        for single, result in zip(batch, results, strict=True):
            if isinstance(result, Exception) and len(batch) > 1 and not isinstance(result, StoreUnavailable):
                again.append((single, result))
            else:
                _end(single[1], result)
        if again:
            _log.warning("batch.split", size=len(again), problem=repr(again[0][1]))
        for single, _ in again:
            await self._flush([single])


def _end(future: asyncio.Future[R], result: R | Exception) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


class ClaimFuture:
    """The result of the commit that claims a turn. It's pending while the turn runs speculatively.

    Before the commit, the turn may read data and call a model, but must not write, call a tool or stream text.
    """

    def __init__(self) -> None:
        self._committed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    @classmethod
    def confirmed(cls) -> Self:
        """Creates a claim that was committed before its turn started."""
        claim = cls()
        claim.settle(committed=True)
        return claim

    @property
    def is_confirmed(self) -> bool:
        return self._committed.done() and self._committed.result()

    @property
    def has_failed(self) -> bool:
        return self._committed.done() and not self._committed.result()

    def settle(self, *, committed: bool) -> None:
        """Sets the result. A commit without an acknowledgement counts as failed, and the reconciler finds its turns."""
        self._committed.set_result(committed)

    def on_confirmed(self, callback: Callable[[], None]) -> None:
        """Registers a callback to run after a successful commit."""
        self._committed.add_done_callback(lambda done: callback() if done.result() else None)

    async def confirm(self) -> bool:
        """Waits for the commit. Returns whether this worker holds the turn."""
        if not self._committed.done():
            # Don't await the future itself, because a cancelled waiter would cancel it for the others.
            await asyncio.wait((self._committed,))
        return self._committed.result()
