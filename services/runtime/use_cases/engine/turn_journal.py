"""The journal of a running turn: its steps are recorded in the database."""

from collections.abc import Mapping, Sequence

from services.runtime.domain.agents import TurnLost
from services.runtime.domain.steps import Step
from services.runtime.domain.turns import ClaimedTurn, StepRecord
from services.runtime.use_cases.engine.delta_stream import DeltaStream, TurnWatch
from services.runtime.use_cases.engine.group_commit import ClaimFuture, GroupCommit, until_available


class DatabaseJournal:
    """A TurnJournal of one execution.

    ``sequence``: that of the turn's newest event; nobody else writes any while this worker holds it. ``recorded``: all
    steps of the turn so far.
    """

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
        # Before the record: its events must not overtake the last piece of the answer's text by much.
        self._deltas.finish()
        record = StepRecord(self._turn, step, step.events(self._turn.session_id, self._turn.id))
        if not await until_available(lambda: self._commits.submit(record)):
            raise TurnLost(self._turn.id)
        self.sequence += len(record.events)
        self.recorded.append(step)

    def output_text(self, piece: str, step: int) -> None:
        self._deltas.add(piece, step, self.sequence)

    async def confirm(self) -> None:
        """Waits until the turn's claim is committed: before, it has no row and no readers. Raises TurnLost."""
        if not await self._claim.confirm():
            raise TurnLost(self._turn.id)
