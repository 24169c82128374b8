"""The journal of a running turn."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from libs.contracts.resources.turns import OutputTextDelta, OutputTextDone
from services.runtime.domain.agents import TurnLost
from services.runtime.domain.ports import DeltaSink
from services.runtime.domain.steps import Step
from services.runtime.domain.turns import ClaimedTurn, StepRecord
from services.runtime.use_cases.engine.group_commit import ClaimFuture, GroupCommit, until_available

LINGER_SECONDS: Final = 0.03
# Even if every character is escaped, this is well below the broker's limit.
_LONGEST_DELTA: Final = 50_000


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

    def __init__(
        self, turn: ClaimedTurn, sink: DeltaSink, claim: ClaimFuture, *, linger: float = LINGER_SECONDS
    ) -> None:
        self._turn = turn
        self._sink = sink
        self._linger = linger
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
            self._timer = asyncio.get_running_loop().call_later(self._linger, self._on_timer)

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


class DatabaseJournal:
    """Implements TurnJournal for one execution of a turn, and counts the turn's events in ``sequence``."""

    def __init__(
        self,
        turn: ClaimedTurn,
        steps: Sequence[Step],
        commits: GroupCommit[StepRecord, bool],
        deltas: DeltaStream,
        claim: ClaimFuture,
        watch: TurnWatch,
        allowed_calls: Mapping[str, str],
    ) -> None:
        self.steps = steps
        self.allowed_calls = allowed_calls
        self.after_wait = turn.after_wait
        self.sequence = turn.sequence
        self.recorded: list[Step] = list(steps)
        self._turn = turn
        self._commits = commits
        self._deltas = deltas
        self._claim = claim
        self._watch = watch

    @property
    def wants_text(self) -> bool:
        return self._watch.wanted

    async def record(self, step: Step) -> None:
        await self.confirm()
        # Send the text before the record, so that the record's events don't arrive long before the last piece of text.
        self._deltas.finish()
        record = StepRecord(self._turn, step, step.events(self._turn.session_id, self._turn.id))
        if not await until_available(lambda: self._commits.submit(record)):
            raise TurnLost(self._turn.id)
        self.sequence += len(record.events)
        self.recorded.append(step)

    def output_text(self, piece: str, step: int) -> None:
        self._deltas.add(piece, step, self.sequence)

    async def confirm(self) -> None:
        """Waits until the turn's claim is committed, since the turn has no row before that. Raises TurnLost."""
        if not await self._claim.confirm():
            raise TurnLost(self._turn.id)
