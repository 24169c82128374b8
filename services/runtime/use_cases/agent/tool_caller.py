"""Makes the tool calls in a model's answer. Calls that need a person or the client become waits of the turn."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.identifiers import new_id
from services.runtime.domain.agents import AgentTask, TurnJournal
from services.runtime.domain.conversation import ToolCall, ToolResult
from services.runtime.domain.steps import Step
from services.runtime.domain.tools import ToolContext, ToolFailed, TurnTools, cut_result
from services.runtime.domain.waits import NewWait, WaitKind, call_hash
from services.runtime.domain.waits.kinds import wait_for
from services.runtime.use_cases.agent.schemas import ArgumentSchemas
from services.runtime.use_cases.agent.tool_tries import ToolTries

OUTCOME_UNKNOWN = (
    "The service was interrupted during this call. It's unknown whether the call was executed. Repeating the "
    "call isn't safe. Tell the user, or check the outcome in another way."
)
_NOT_AS_APPROVED: Final = "The call wasn't made: it isn't the call that was approved."
_CONCURRENCY: Final = 4


@dataclass(frozen=True, slots=True)
class CalledTools:
    """The results of tool calls by call ID. If there are `waits`, the turn is suspended."""

    results: dict[str, ToolResult]
    waits: tuple[NewWait, ...]


class ToolCaller:
    """Makes tool calls, at most four at a time per turn."""

    def __init__(self, tries: ToolTries | None = None) -> None:
        self._tries = tries or ToolTries()
        self._schemas = ArgumentSchemas()

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
        """Makes and records the calls in the answer of `step`, except those that need an unresolved wait.

        If a crash interrupted the calls (`resumed`), only those that are safe to repeat are made again. Raises the
        journal's errors, which cancel the other calls.
        """
        kinds = {call.id: kind for call in calls if (kind := await self._needed(call, tools, journal)) is not None}
        swapped = [call for call in calls if journal.allowed_calls.get(call.id) not in (None, call_hash(call))]
        results: dict[str, ToolResult] = {}
        for call in swapped:
            results[call.id] = ToolResult(call.id, call.name, _NOT_AS_APPROVED, "failed")
            await journal.record(Step(step, results[call.id]))
        ready = [call for call in calls if call.id not in kinds and call.id not in results]
        made = await self._make_all(task, journal, step, ready, tools, resumed=resumed) if ready else []
        results.update((result.call_id, result) for result in made)
        return CalledTools(results, tuple(_wait(kinds[call.id], step, call) for call in calls if call.id in kinds))

    async def for_client(self, calls: Sequence[ToolCall], tools: TurnTools) -> tuple[ToolCall, ...]:
        """Returns the valid calls to tools that the client runs."""
        wanted = [call for call in calls if call.name in tools and tools[call.name].definition.run_by_client]
        return tuple([call for call in wanted if await self._rejection(call, tools) is None])

    async def _needed(self, call: ToolCall, tools: TurnTools, journal: TurnJournal) -> WaitKind | None:
        """Returns the kind of wait that must precede the call or produce its result, or None if it needs none."""
        if call.name not in tools or call.id in journal.allowed_calls:
            return None
        kind = wait_for(tools[call.name].definition)
        # Don't ask anyone about an invalid call.
        return None if kind is None or await self._rejection(call, tools) is not None else kind

    async def _make_all(
        self,
        task: AgentTask,
        journal: TurnJournal,
        step: int,
        calls: Sequence[ToolCall],
        tools: TurnTools,
        *,
        resumed: bool,
    ) -> list[ToolResult]:
        free = asyncio.Semaphore(_CONCURRENCY)

        async def make(call: ToolCall) -> ToolResult:
            async with free:
                result = await self._make(task, call, tools, resumed=resumed)
            await journal.record(Step(step, result))
            return result

        if len(calls) == 1:
            return [await make(calls[0])]
        tasks = [asyncio.create_task(make(call)) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for unfinished in tasks:
                unfinished.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _make(self, task: AgentTask, call: ToolCall, tools: TurnTools, *, resumed: bool) -> ToolResult:
        if resumed and "." in call.name and call.name not in tools:
            # The tool existed when the call started. Its toolset has been deleted since.
            return ToolResult(call.id, call.name, OUTCOME_UNKNOWN, "unknown")
        refusal = await self._rejection(call, tools)
        if refusal is not None:
            return ToolResult(call.id, call.name, refusal, "failed")
        tool = tools[call.name]
        if resumed and not tool.definition.safe_to_repeat:
            return ToolResult(call.id, call.name, OUTCOME_UNKNOWN, "unknown")
        context = ToolContext(call.id, task.turn_id, task.session_id, task.caller, task.agent.knowledge_bases)
        try:
            output = await self._tries.run(tool, call.arguments, context)
        except ToolFailed as error:
            return ToolResult(call.id, call.name, cut_result(str(error)), "failed")
        text = cut_result(output.text, cut=output.cut)
        return ToolResult(call.id, call.name, text, "completed", output.citations, output.artifacts, output.warnings)

    async def _rejection(self, call: ToolCall, tools: TurnTools) -> str | None:
        """Returns the reason why the call must not be made, or None if it may be made."""
        if call.name not in tools:
            return f"Unknown tool {call.name[:100]!r}. Use one of: {', '.join(tools) or 'none'}."
        if call.validation_error is not None:
            return f"The call wasn't made: {call.validation_error}."
        problems = await self._schemas.problems(tools[call.name].definition, call.arguments)
        return cut_result("The call wasn't made: " + "; ".join(problems)) if problems else None


def _wait(kind: WaitKind, step: int, call: ToolCall) -> NewWait:
    payload = kind.payload(call)
    return NewWait(new_id(), kind.name, step, payload, call.id, kind.due_at(payload))
