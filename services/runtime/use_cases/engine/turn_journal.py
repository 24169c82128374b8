"""A turn's journal: its steps are recorded in the database, its text streams past."""

from __future__ import annotations

from collections.abc import Sequence

from libs.contracts.events.runtime import ToolCallCompleted, ToolCallFailed, ToolCallStarted
from libs.contracts.messages import Event
from services.runtime.domain.agent_ports import RecordedStep, TurnLost
from services.runtime.domain.conversation import ModelAnswer, ToolCall, ToolResult
from services.runtime.domain.conversation_json import answer_to_json, tool_result_to_json
from services.runtime.domain.turns import ClaimedTurn, StepRecord
from services.runtime.use_cases.engine.claim_future import Holds
from services.runtime.use_cases.engine.delta_stream import DeltaStream
from services.runtime.use_cases.engine.group_commit import GroupCommit
from services.runtime.use_cases.engine.retry_until_available import retry_until_available


class DatabaseJournal:
    """A TurnJournal of one attempt."""

    def __init__(
        self,
        turn: ClaimedTurn,
        steps: Sequence[RecordedStep],
        commit: GroupCommit[StepRecord, bool],
        deltas: DeltaStream,
        holds: Holds,
    ) -> None:
        self._turn = turn
        self._steps = steps
        self._commit = commit
        self._deltas = deltas
        self._holds = holds

    @property
    def steps(self) -> Sequence[RecordedStep]:
        return self._steps

    @property
    def wants_text(self) -> bool:
        return self._turn.stream

    async def record_answer(self, step: int, answer: ModelAnswer) -> None:
        # Before the record: the events of the step's tool calls must not overtake its last piece of text by much.
        self._deltas.finish()
        turn = self._turn
        started = tuple(
            ToolCallStarted(
                session_id=turn.session_id,
                turn_id=turn.id,
                step=step,
                call_id=call.id,
                name=call.name,
                arguments=call.arguments,
            )
            for call in answer.tool_calls
        )
        await self._record(StepRecord(turn, step, "", "answer", answer_to_json(answer), started))

    async def record_tool_result(self, step: int, call: ToolCall, result: ToolResult) -> None:
        event = self._result_event(step, call, result)
        payload = tool_result_to_json(result)
        await self._record(StepRecord(self._turn, step, call.id, "tool_result", payload, (event,)))

    def output_text(self, piece: str, step: int) -> None:
        self._deltas.add(piece, step)

    async def _record(self, record: StepRecord) -> None:
        # Before its claim is committed the turn is not there to record anything of.
        if not await self._holds():
            raise TurnLost(self._turn.id)
        if not await retry_until_available(lambda: self._commit.submit(record), turn_id=self._turn.id):
            raise TurnLost(self._turn.id)

    def _result_event(self, step: int, call: ToolCall, result: ToolResult) -> Event:
        turn = self._turn
        if result.is_error:
            return ToolCallFailed(
                session_id=turn.session_id,
                turn_id=turn.id,
                step=step,
                call_id=call.id,
                name=call.name,
                reason=result.output,
            )
        return ToolCallCompleted(
            session_id=turn.session_id,
            turn_id=turn.id,
            step=step,
            call_id=call.id,
            name=call.name,
            output=result.output,
        )
