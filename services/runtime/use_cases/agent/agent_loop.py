"""Runs an agent's turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from libs.contracts.resources.turns import NamedTool
from services.runtime.domain.agents import AgentReply, AgentSpec, AgentTask, ToolSource, TurnJournal, TurnWaits
from services.runtime.domain.conversation import AssistantMessage, Message, ModelAnswer
from services.runtime.domain.knowledge import KnowledgeRetriever, Retrieved
from services.runtime.domain.models import AnswerRefused, ChatModel, ModelRequest, OptionNotSupported
from services.runtime.domain.steps import ModelOutput, Step, rounds
from services.runtime.domain.tools import ToolsetVersion, TurnTools
from services.runtime.use_cases.agent.context_builder import ContextBuilder
from services.runtime.use_cases.agent.tool_caller import ToolCaller
from services.runtime.use_cases.agent.tool_tries import ToolTries
from services.runtime.use_cases.agent.turn_progress import (
    REPEATS,
    TurnProgress,
    read_output,
    recorded_toolsets,
    with_call_ids,
)
from services.runtime.use_cases.agent.turn_tools import NO_KNOWLEDGE

_STEPS_USED_UP = "You have reached the step limit. Answer now in text with what you have found, without calling tools."


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """The limits of a turn. `steps` limits the model calls, and `tool_output` the characters of a result."""

    steps: int = 10
    tool_concurrency: int = 4
    tool_output: int = 20_000


class AgentRunner:
    """Implements AgentLoop. A single instance runs all turns of a process."""

    def __init__(
        self,
        model: ChatModel,
        tools: ToolSource,
        retriever: KnowledgeRetriever | None = None,
        limits: AgentLimits | None = None,
        context: ContextBuilder | None = None,
        tries: ToolTries | None = None,
    ) -> None:
        self._model = model
        self._source = tools
        self._retriever = retriever
        self._context = context or ContextBuilder()
        self._limits = limits or AgentLimits()
        concurrency, longest = self._limits.tool_concurrency, self._limits.tool_output
        self._calls = ToolCaller(tries, concurrency=concurrency, longest_output=longest)

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
            request = replace(self._request(task, progress.messages), chunks=chunks)
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
        if output.problems and progress.refused >= REPEATS:
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
        began_with = recorded_toolsets(journal.steps)
        tools = await self._source.for_turn(task, any_files=context.any_files, toolsets=began_with)
        offered = tools.definitions
        _require_named(task.agent, tools)
        asked = {call.id for m in context.messages if isinstance(m, AssistantMessage) for call in m.tool_calls}
        progress = TurnProgress(context.messages, seen_ids=asked)
        if waits := await self._resume(task, journal, progress, tools):
            return waits
        most = task.agent.max_steps or self._limits.steps
        while True:
            # The last step asks for text, because no further model call would read the results of tool calls.
            last = progress.step + 1 >= most or not offered
            request = replace(
                self._request(task, progress.messages),
                tools=offered,
                chunks=context.chunks,
                answer_in_text=last or task.agent.settings.tool_choice == "none",
            )
            if progress.made:
                # If every step forced a call, the turn would never end.
                request = replace(request, settings=request.settings.model_copy(update={"tool_choice": None}))
            if last and offered and progress.made:
                request = replace(request, system=f"{request.system}\n\n{_STEPS_USED_UP}".lstrip())
            answer = with_call_ids(await self._ask(request, journal, progress.step + 1), progress.seen_ids)
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

    def _request(self, task: AgentTask, messages: Sequence[Message]) -> ModelRequest:
        agent = task.agent
        return ModelRequest(
            model=agent.model,
            system=agent.system_prompt,
            messages=tuple(messages),
            settings=agent.settings,
        )


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
