"""Runs an agent's turn."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from libs.contracts.identifiers import new_id
from libs.contracts.resources.turns import NamedTool
from libs.json_text import write_json
from services.runtime.domain.agents import (
    AgentReply,
    AgentSpec,
    AgentTask,
    MadeCall,
    ToolSource,
    TurnJournal,
    TurnWaits,
)
from services.runtime.domain.conversation import (
    ArtifactRef,
    AssistantMessage,
    Citation,
    Message,
    ModelAnswer,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
)
from services.runtime.domain.knowledge import KnowledgeRetriever, Retrieved
from services.runtime.domain.models import AnswerRefused, ChatModel, ModelRequest, OptionNotSupported
from services.runtime.domain.steps import ModelOutput, Step, rounds
from services.runtime.domain.tools import ToolsetVersion, TurnTools
from services.runtime.use_cases.agent.context_builder import ContextBuilder
from services.runtime.use_cases.agent.schemas import correction, read_output
from services.runtime.use_cases.agent.tool_caller import ToolCaller
from services.runtime.use_cases.agent.tool_tries import ToolTries
from services.runtime.use_cases.agent.turn_tools import NO_KNOWLEDGE

_STEPS_USED_UP = "You have reached the step limit. Answer now in text with what you have found, without calling tools."
_MOST_STEPS: Final = 10
"""Maximum number of model calls, unless the agent sets another number."""
_REPEATS: Final = 2
"""Number of retries after an answer that doesn't match the output schema."""
_REPETITIONS: Final = 3
_CITED: Final = re.compile(r"\[(\d{1,3})\]")
_LONGEST_CALL_ID: Final = 200


@dataclass(slots=True)
class TurnProgress:
    """The state of a turn's execution. When a turn resumes, the state is rebuilt from the recorded steps.

    `refused` counts the answers that didn't match the output schema, and `same_results` the calls with the same
    arguments and result.
    """

    messages: list[Message]
    made: list[MadeCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    step: int = 0
    seen_ids: set[str] = field(default_factory=set)
    same_results: Counter[bytes] = field(default_factory=Counter)
    refused: int = 0
    output: Any = None

    def add_output(self, output: ModelOutput) -> None:
        answer = output.answer
        self.step += 1
        self.usage += answer.usage
        self.seen_ids.update(call.id for call in answer.tool_calls)
        self.messages.append(AssistantMessage(answer.text, answer.tool_calls, answer.provider_data))
        if output.problems:
            self.refused += 1
            self.messages.append(correction(output.problems))

    def add_results(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
        for call, result in zip(calls, results, strict=True):
            self.made.append(MadeCall(call, result))
            self.messages.append(ToolMessage(self._hinted(call, result)))

    def _hinted(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Returns the result for the model, with a hint if the same call keeps returning the same result."""
        key = write_json(
            [call.name, call.arguments, call.validation_error, result.status, result.output], sort_keys=True
        )
        self.same_results[key] += 1
        times = self.same_results[key]
        if times < _REPETITIONS:
            return result
        hint = (
            f"[{call.name} has now returned the same result for the same arguments {times} times in this turn. Calling "
            f"{call.name} like this again won't help. Use what you have, or try something else.]"
        )
        return replace(result, output=f"{result.output}\n\n{hint}")

    def with_call_ids(self, answer: ModelAnswer) -> ModelAnswer:
        """Ensures that every call has a short, unique ID, since some providers omit or repeat IDs."""
        calls: list[ToolCall] = []
        taken = set(self.seen_ids)
        for call in answer.tool_calls:
            if not 0 < len(call.id) <= _LONGEST_CALL_ID or call.id in taken:
                call = replace(call, id=f"call_{new_id()}")
            taken.add(call.id)
            calls.append(call)
        return replace(answer, tool_calls=tuple(calls)) if calls else answer

    def reply(self, final: ModelAnswer, citations: Sequence[Citation], warnings: Sequence[str]) -> AgentReply:
        artifacts: tuple[ArtifactRef, ...] = tuple(artifact for made in self.made for artifact in made.result.artifacts)
        cut = {
            "length": ("the answer was cut off at the model's length limit",),
            "content_filter": ("the provider's content filter stopped the answer",),
        }.get(final.finish_reason, ())
        of_tools = [warning for made in self.made for warning in made.result.warnings]
        return AgentReply(
            text=final.text,
            finish_reason=final.finish_reason,
            tool_calls=tuple(self.made),
            citations=tuple(citations),
            artifacts=artifacts,
            usage=self.usage,
            steps=self.step,
            warnings=tuple(dict.fromkeys((*warnings, *of_tools, *cut))),
            output=self.output,
        )

    def citations(self, final: ModelAnswer, given: tuple[Citation, ...]) -> tuple[Citation, ...]:
        """Returns the chunks that the final answer cites as [n], or all chunks for structured output."""
        if final.citations:
            return final.citations
        searches = [found for found in (given, *(made.result.citations for made in self.made)) if found]
        if self.output is not None:
            return tuple(dict.fromkeys(citation for search in searches for citation in search))
        # Every search numbers its chunks from 1, so a number may match one chunk of each search.
        numbers = [int(number) for number in _CITED.findall(final.text)]
        named = (search[number - 1] for number in numbers for search in searches if 0 < number <= len(search))
        return tuple(dict.fromkeys(named))


class AgentRunner:
    """Implements AgentLoop. A single instance runs all turns of a process."""

    def __init__(
        self,
        model: ChatModel,
        tools: ToolSource,
        retriever: KnowledgeRetriever | None = None,
        context: ContextBuilder | None = None,
        tries: ToolTries | None = None,
    ) -> None:
        self._model = model
        self._source = tools
        self._retriever = retriever
        self._context = context or ContextBuilder()
        self._calls = ToolCaller(tries)

    async def run(self, task: AgentTask, journal: TurnJournal) -> AgentReply | TurnWaits:
        if task.agent.calls_tools:
            return await self._answer_with_tools(task, journal)
        return await self._answer_once(task, journal)

    async def _answer_once(self, task: AgentTask, journal: TurnJournal) -> AgentReply:
        found, context = await self._retrieve(task), await self._context.build(task)
        chunks = (*context.chunks, *found.chunks)
        progress = TurnProgress(context.messages)
        for step in journal.steps:
            if isinstance(step.content, ModelOutput):
                progress.add_output(step.content)
        while True:
            request = _request(task.agent, progress.messages, chunks)
            # No tools were offered, so ignore any calls that the model makes.
            answer = replace(await self._ask(request, journal, progress.step + 1), tool_calls=())
            if await self._accepts(task, journal, progress, answer):
                citations = progress.citations(answer, chunks)
                return progress.reply(answer, citations, (*context.warnings, *found.warnings))

    async def _accepts(
        self,
        task: AgentTask,
        journal: TurnJournal,
        progress: TurnProgress,
        answer: ModelAnswer,
        toolsets: Sequence[ToolsetVersion] = (),
    ) -> bool:
        """Adds a final answer to the turn. Returns whether it matches the output schema.

        An answer that doesn't match is recorded with its problems. Raises AnswerRefused if no attempts remain.
        """
        output = ModelOutput(answer, tuple(toolsets), model=task.agent.model)
        if (schema := task.agent.settings.output_schema) is not None:
            read = await read_output(schema, answer.text)
            output, progress.output = replace(output, problems=read.problems), read.value
        if output.problems and progress.refused >= _REPEATS:
            problems = "; ".join(output.problems)
            raise AnswerRefused(f"The model's answer doesn't match output_schema: {problems}.", answer.usage)
        if output.problems:
            await journal.record(Step(progress.step + 1, output))
        progress.add_output(output)
        return not output.problems

    async def _answer_with_tools(self, task: AgentTask, journal: TurnJournal) -> AgentReply | TurnWaits:
        context = await self._context.build(task)
        if task.agent.agent_type == "llm_agent":
            found = await self._retrieve(task)
            warnings = (*context.warnings, *found.warnings)
            context = replace(context, chunks=(*context.chunks, *found.chunks), warnings=warnings)
        began_with = _recorded_toolsets(journal.steps)
        tools = await self._source.for_turn(task, any_files=context.any_files, toolsets=began_with)
        offered = tools.definitions
        _require_named(task.agent, tools)
        asked = {call.id for m in context.messages if isinstance(m, AssistantMessage) for call in m.tool_calls}
        progress = TurnProgress(context.messages, seen_ids=asked)
        if waits := await self._resume(task, journal, progress, tools):
            return waits
        most = task.agent.max_steps or _MOST_STEPS
        while True:
            # The last step asks for text, because no further model call would read the results of tool calls.
            last = progress.step + 1 >= most or not offered
            request = replace(
                _request(task.agent, progress.messages, context.chunks),
                tools=offered,
                answer_in_text=last or task.agent.settings.tool_choice == "none",
            )
            if progress.made:
                # If every step forced a call, the turn would never end.
                request = replace(request, settings=request.settings.model_copy(update={"tool_choice": None}))
            if last and offered and progress.made:
                request = replace(request, system=f"{request.system}\n\n{_STEPS_USED_UP}".lstrip())
            answer = progress.with_call_ids(await self._ask(request, journal, progress.step + 1))
            if request.answer_in_text or not answer.tool_calls:
                answer = _without_calls(answer, most) if answer.tool_calls else answer
                first = () if progress.step else tools.toolsets
                if not await self._accepts(task, journal, progress, answer, first):
                    continue
                citations = progress.citations(answer, context.chunks)
                reply = progress.reply(answer, citations, (*context.warnings, *tools.warnings))
                return replace(reply, toolsets=tools.toolsets) if progress.step == 1 else reply
            if task.request.client_calls is not None and (
                requested := await self._calls.for_client(answer.tool_calls, tools)
            ):
                progress.add_output(ModelOutput(answer))
                reply = progress.reply(answer, (), (*context.warnings, *tools.warnings))
                toolsets = tools.toolsets if progress.step == 1 else ()
                return replace(reply, requested=requested, toolsets=toolsets)
            output = ModelOutput(answer, () if progress.step else tools.toolsets, model=task.agent.model)
            await journal.record(Step(progress.step + 1, output))
            progress.add_output(output)
            called = await self._calls.make(task, journal, progress.step, answer.tool_calls, tools)
            if called.waits:
                return TurnWaits(called.waits)
            progress.add_results(answer.tool_calls, [called.results[call.id] for call in answer.tool_calls])

    async def _resume(
        self, task: AgentTask, journal: TurnJournal, progress: TurnProgress, tools: TurnTools
    ) -> TurnWaits | None:
        """Restores the recorded state of earlier executions and finishes their unfinished calls."""
        for output, recorded in rounds(journal.steps):
            answer = output.answer
            progress.add_output(output)
            missing = [call for call in answer.tool_calls if call.id not in recorded]
            if missing:
                # After a wait, calls without a result haven't started.
                resumed = not journal.after_wait
                called = await self._calls.make(task, journal, progress.step, missing, tools, resumed=resumed)
                if called.waits:
                    return TurnWaits(called.waits)
                recorded.update(called.results)
            progress.add_results(answer.tool_calls, [recorded[call.id] for call in answer.tool_calls])
        return None

    async def _ask(self, request: ModelRequest, journal: TurnJournal, step: int) -> ModelAnswer:
        on_text: Callable[[str], None] | None = None
        if journal.wants_text:
            on_text = partial(journal.output_text, step=step)
        return await self._model.answer(request, on_text)

    async def _retrieve(self, task: AgentTask) -> Retrieved:
        if not task.agent.knowledge_bases:
            return Retrieved()
        if self._retriever is None:
            return Retrieved(warnings=(NO_KNOWLEDGE,))
        return await self._retriever.retrieve(task.question.text, task.agent.knowledge_bases, task.caller)


def _request(agent: AgentSpec, messages: Sequence[Message], chunks: tuple[Citation, ...]) -> ModelRequest:
    return ModelRequest(agent.model, agent.system_prompt, tuple(messages), chunks=chunks, settings=agent.settings)


def _require_named(agent: AgentSpec, tools: TurnTools) -> None:
    """Raises OptionNotSupported if the agent must call a tool that the turn doesn't have."""
    named = agent.settings.forced_call
    if isinstance(named, NamedTool) and named.name not in tools:
        names = ", ".join(tools) or "none"
        raise OptionNotSupported(
            f"tool_choice names {named.name!r}, which isn't one of this turn's tools. Available tools: {names}."
        )


def _without_calls(answer: ModelAnswer, steps: int) -> ModelAnswer:
    """Removes the calls from a final answer that ignores the step limit."""
    text = answer.text or f"I couldn't finish this within the step limit of {steps}."
    return replace(answer, text=text, tool_calls=())


def _recorded_toolsets(steps: Sequence[Step]) -> tuple[ToolsetVersion, ...] | None:
    """Returns the toolset versions from the start of a turn, or None if it has no recorded steps."""
    first = steps[0].content if steps else None
    return first.toolsets if isinstance(first, ModelOutput) else None
