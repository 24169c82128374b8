"""Commits of running turns: in groups, after their claim, and with the text that readers stream meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Self, TypeVar

import structlog

from libs.contracts.errors import StoreUnavailable
from libs.contracts.resources.turns import OutputTextDelta, OutputTextDone
from libs.fairness import FairQueue
from libs.retry import RetryPolicy
from services.runtime.domain.agents import TurnLost
from services.runtime.domain.ports import DeltaSink
from services.runtime.domain.steps import Step
from services.runtime.domain.turns import ClaimedTurn, StepRecord

T = TypeVar("T")
R = TypeVar("R")

_log = structlog.get_logger("runtime.turns")
_LINGER_SECONDS: Final = 0.003
_BUSY_SECONDS: Final = 0.1
_DELTA_LINGER_SECONDS: Final = 0.03
# Even if every character is escaped, this is well below the broker's limit.
_LONGEST_DELTA: Final = 50_000
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


class TurnWatch:
    """Tracks whether a reader follows a running turn's text. ``on_request`` is called when readers request the text."""

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self.on_request: Callable[[], None] = lambda: None
        self._seen = 0

    def request(self, watches: int) -> None:
        """Updates the number of requests for the turn's text. Only a higher number has an effect."""
        if watches > self._seen:
            self._seen = watches
            self.wanted = True
            self.on_request()


class DeltaStream:
    """Streams a turn's text: the first piece immediately, and then the text that arrives in each linger period.

    Offsets count characters of a step's text, so that readers can detect losses.
    """

    def __init__(self, turn: ClaimedTurn, sink: DeltaSink, claim: ClaimFuture) -> None:
        self._turn = turn
        self._sink = sink
        self._step = 0
        self._follows = 0
        self._offset = 0
        self._sent: list[str] = []
        self._pieces: list[str] = []
        self._is_done = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._claim = claim
        if not claim.is_confirmed:
            claim.on_confirmed(self._release)

    def add(self, piece: str, step: int, follows: int) -> None:
        """Adds a piece of the step's text. ``follows`` is the number of the turn's latest event before that text."""
        if not piece:
            return
        if step != self._step:
            self.finish()
            self._step, self._follows, self._offset, self._is_done = step, follows, 0, False
            self._sent.clear()
        # Replace NUL as in the stored reply, since PostgreSQL can't store it in text.
        self._pieces.append(piece.replace("\x00", "\N{REPLACEMENT CHARACTER}"))
        if self._timer is None:
            # Send the first piece immediately, because users notice the time to the first text.
            self._on_timer()

    def finish(self) -> None:
        """Sends the rest of the step's text and marks it as complete."""
        self._cancel_timer()
        self._flush()
        if self._offset and not self._is_done:
            self._is_done = True
            self._send_done()

    def send_again(self) -> None:
        """Sends the current step's text from the start, for readers who missed some of it."""
        if not self._claim.is_confirmed:
            return
        self._flush()
        self._send(0, "".join(self._sent))
        if self._is_done:
            self._send_done()

    def stop_timer(self) -> None:
        """Stops the timer. Text that hasn't been sent may be dropped."""
        self._is_stopped = True
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _release(self) -> None:
        """Sends the text that was held back until the claim was committed."""
        if self._timer is None and not self._is_stopped:
            self._on_timer()

    def _on_timer(self) -> None:
        self._timer = None
        if self._pieces and self._claim.is_confirmed:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(_DELTA_LINGER_SECONDS, self._on_timer)

    def _flush(self) -> None:
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        self._sent.append(text)
        self._send(self._offset, text)
        self._offset += len(text)

    def _send(self, offset: int, text: str) -> None:
        for start in range(0, len(text), _LONGEST_DELTA):
            piece = text[start : start + _LONGEST_DELTA]
            delta = OutputTextDelta(**self._position(), offset=offset + start, text=piece)
            self._sink.send(self._turn, delta, self._follows)

    def _send_done(self) -> None:
        self._sink.send(self._turn, OutputTextDone(**self._position(), length=self._offset), self._follows)

    def _position(self) -> dict[str, Any]:
        turn = self._turn
        return {"session_id": turn.session_id, "turn_id": turn.id, "attempt": turn.attempt, "step": self._step}


@dataclass(slots=True, eq=False, repr=False)
class DatabaseJournal:
    """Implements TurnJournal for one execution of a turn, and counts the turn's events in ``sequence``."""

    turn: ClaimedTurn
    steps: list[Step]
    commits: GroupCommit[StepRecord, bool]
    deltas: DeltaStream
    claim: ClaimFuture
    watch: TurnWatch
    allowed_calls: Mapping[str, str]
    sequence: int = field(init=False)

    def __post_init__(self) -> None:
        self.sequence = self.turn.sequence

    @property
    def after_wait(self) -> bool:
        return self.turn.after_wait

    @property
    def wants_text(self) -> bool:
        return self.watch.wanted

    async def record(self, step: Step) -> None:
        await self.confirm()
        # Send the text before the record, so that the record's events don't arrive long before the last piece of text.
        self.deltas.finish()
        record = StepRecord(self.turn, step, step.events(self.turn.session_id, self.turn.id))
        if not await until_available(lambda: self.commits.submit(record)):
            raise TurnLost(self.turn.id)
        self.sequence += len(record.events)
        self.steps.append(step)

    def output_text(self, piece: str, step: int) -> None:
        self.deltas.add(piece, step, self.sequence)

    async def confirm(self) -> None:
        """Waits until the turn's claim is committed, since the turn has no row before that. Raises TurnLost."""
        if not await self.claim.confirm():
            raise TurnLost(self.turn.id)
