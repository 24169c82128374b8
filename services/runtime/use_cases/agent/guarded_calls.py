"""Makes the calls of an answer that may be made, and turns the others into actions that the turn waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.identifiers import new_id
from services.runtime.domain.agents import AgentTask, TurnJournal
from services.runtime.domain.conversation import ToolCall, ToolResult
from services.runtime.domain.steps import Step
from services.runtime.domain.tools import TurnTools
from services.runtime.domain.waits import NewWait, WaitKind, call_hash
from services.runtime.domain.waits.kinds import wait_for
from services.runtime.use_cases.agent.tool_caller import ToolCaller

_NOT_AS_APPROVED: Final = "The call was not made: it is not the call that was approved."


@dataclass(frozen=True, slots=True)
class CalledTools:
    """``results`` by call id. With ``waits`` the turn is suspended."""

    results: dict[str, ToolResult]
    waits: tuple[NewWait, ...]


class GuardedCalls:
    def __init__(self, caller: ToolCaller) -> None:
        self._caller = caller

    async def make(
        self,
        task: AgentTask,
        journal: TurnJournal,
        step: int,
        calls: Sequence[ToolCall],
        tools: TurnTools,
        *,
        resumed: bool = False,
    ) -> CalledTools:
        """Makes and records the calls that need nobody, or were approved. ``resumed`` as for ToolCaller."""
        kinds = {call.id: kind for call in calls if (kind := await self._needed(call, tools, journal)) is not None}
        swapped = [call for call in calls if journal.allowed_calls.get(call.id) not in (None, call_hash(call))]
        results: dict[str, ToolResult] = {}
        for call in swapped:
            results[call.id] = ToolResult(call.id, call.name, _NOT_AS_APPROVED, "failed")
            await journal.record(Step(step, results[call.id]))
        ready = [call for call in calls if call.id not in kinds and call.id not in results]
        made = await self._caller.call_all(task, journal, step, ready, tools, resumed=resumed) if ready else []
        results.update((result.call_id, result) for result in made)
        waits = tuple(_wait(kinds[call.id], step, call) for call in calls if call.id in kinds)
        return CalledTools(results, waits)

    async def for_client(self, calls: Sequence[ToolCall], tools: TurnTools) -> tuple[ToolCall, ...]:
        """The calls that only the caller can make. Those that cannot be made anyway are not among them."""
        wanted = [call for call in calls if call.name in tools and tools[call.name].definition.run_by_client]
        return tuple([call for call in wanted if await self._caller.rejection(call, tools) is None])

    async def _needed(self, call: ToolCall, tools: TurnTools, journal: TurnJournal) -> WaitKind | None:
        """The wait without which the call cannot be made or has no result."""
        if call.name not in tools or call.id in journal.allowed_calls:
            return None
        kind = wait_for(tools[call.name].definition)
        # Nobody is asked about a call that cannot be made anyway.
        return None if kind is None or await self._caller.rejection(call, tools) is not None else kind


def _wait(kind: WaitKind, step: int, call: ToolCall) -> NewWait:
    payload = kind.payload(call)
    return NewWait(new_id(), kind.name, step, payload, call.id, kind.due_at(payload))
