"""Runs an agent's turn: model calls, tool calls, the limit on steps, and resuming after a crash."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from libs.contracts.api.sessions import NamedTool
from libs.contracts.identifiers import new_id
from services.runtime.domain.agents import (
    AgentReply,
    AgentSpec,
    AgentTask,
    MadeCall,
    RecordedAnswer,
    RecordedResult,
    RecordedStep,
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
from services.runtime.domain.models import ChatModel, ModelFailed, ModelRequest, OptionNotSupported
from services.runtime.domain.tools import ToolsetVersion, TurnTools
from services.runtime.use_cases.agent.context_builder import ContextBuilder
from services.runtime.use_cases.agent.guarded_calls import GuardedCalls
from services.runtime.use_cases.agent.repeated_calls import RepeatedCalls
from services.runtime.use_cases.agent.structured_output import REPEATS, correction, read_output
from services.runtime.use_cases.agent.tool_caller import ToolCaller
from services.runtime.use_cases.agent.tool_tries import ToolTries
from services.runtime.use_cases.agent.turn_tools import NO_KNOWLEDGE

_CITED = re.compile(r"\[(\d{1,3})\]")
_STEPS_USED_UP = "You have used up your steps. Answer now in text with what you have found, without calling tools."
_LONGEST_CALL_ID = 200


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """`steps`: model calls in one react turn unless the agent says otherwise; `tool_output` in characters."""

    steps: int = 10
    tool_concurrency: int = 4
    tool_output: int = 20_000


@dataclass(slots=True)
class _Progress:
    """The progress of a turn; rebuilt from the recorded steps when it resumes."""

    messages: list[Message]
    made: list[MadeCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    step: int = 0
    seen_ids: set[str] = field(default_factory=set)
    repeated: RepeatedCalls = field(default_factory=RepeatedCalls)
    refused: int = 0
    output: Any = None

    def add_recorded(self, recorded: RecordedAnswer) -> None:
        self.add_answer(recorded.answer)
        if recorded.problems:
            self.refused += 1
            self.messages.append(correction(recorded.problems))

    def add_answer(self, answer: ModelAnswer) -> None:
        self.step += 1
        self.usage += answer.usage
        self.seen_ids.update(call.id for call in answer.tool_calls)
        self.messages.append(AssistantMessage(answer.text, answer.tool_calls))

    def add_results(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
        for call, result in zip(calls, results, strict=True):
            self.made.append(MadeCall(call, result))
            self.messages.append(ToolMessage(self.repeated.hinted(call, result)))


class AgentRunner:
    """An AgentLoop. One instance serves all turns of a process."""

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
        caller = ToolCaller(tries, concurrency=self._limits.tool_concurrency, longest_output=self._limits.tool_output)
        self._calls = GuardedCalls(caller)

    async def run(self, task: AgentTask, journal: TurnJournal) -> AgentReply | TurnWaits:
        if task.agent.calls_tools:
            return await self._react(task, journal)
        return await self._answer_once(task, journal)

    async def _answer_once(self, task: AgentTask, journal: TurnJournal) -> AgentReply:
        found, context = await self._retrieve(task), await self._context.build(task)
        chunks = (*context.chunks, *found.chunks)
        progress = _Progress(context.messages)
        for recorded, _ in _rounds(journal.steps):
            progress.add_recorded(recorded)
        while True:
            request = replace(self._request(task, progress.messages), chunks=chunks)
            # No tools were offered; calls that a model makes in spite of that are ignored.
            answer = replace(await self._ask(request, journal, progress.step + 1), tool_calls=())
            if await self._accepts(task, journal, progress, answer):
                citations = answer.citations or _cited(answer.text, chunks)
                return _reply(progress, answer, citations, (*context.warnings, *found.warnings))

    async def _accepts(
        self,
        task: AgentTask,
        journal: TurnJournal,
        progress: _Progress,
        answer: ModelAnswer,
        toolsets: Sequence[ToolsetVersion] = (),
    ) -> bool:
        """Adds a final answer; False for one that does not fit the output schema, which is recorded.

        Raises ModelFailed when the model was asked again often enough.
        """
        recorded = RecordedAnswer(progress.step + 1, answer)
        if task.agent.output_schema is not None:
            output = read_output(task.agent.output_schema, answer.text)
            recorded, progress.output = replace(recorded, problems=output.problems), output.value
        if recorded.problems and progress.refused >= REPEATS:
            raise ModelFailed(f"the model's answer does not fit output_schema: {'; '.join(recorded.problems)}")
        if recorded.problems:
            await journal.record_answer(recorded.step, answer, toolsets, recorded.problems)
        progress.add_recorded(recorded)
        return not recorded.problems

    async def _react(self, task: AgentTask, journal: TurnJournal) -> AgentReply | TurnWaits:
        context = await self._context.build(task)
        if task.agent.agent_type == "llm_agent":
            found = await self._retrieve(task)
            warnings = (*context.warnings, *found.warnings)
            context = replace(context, chunks=(*context.chunks, *found.chunks), warnings=warnings)
        began_with = _toolsets(journal.steps)
        tools = await self._source.for_turn(task, any_files=context.any_files, toolsets=began_with)
        offered = tools.definitions
        _require_named(task.agent, tools)
        progress = _Progress(context.messages)
        if waits := await self._resume(task, journal, progress, tools):
            return waits
        most = task.agent.max_steps or self._limits.steps
        while True:
            # The last step asks for text: results of further calls would reach no model.
            last = progress.step + 1 >= most or not offered
            request = replace(
                self._request(task, progress.messages),
                tools=offered,
                chunks=context.chunks,
                answer_in_text=last or task.agent.tool_choice == "none",
                # A call that is asked for again and again would never let the turn end.
                tool_choice=None if progress.made else task.agent.forced_call,
            )
            if last and offered and progress.made:
                request = replace(request, system=f"{request.system}\n\n{_STEPS_USED_UP}".lstrip())
            answer = _with_call_ids(await self._ask(request, journal, progress.step + 1), progress.seen_ids)
            if request.answer_in_text or not answer.tool_calls:
                answer = _without_calls(answer, most) if answer.tool_calls else answer
                first = () if progress.step else tools.toolsets
                if not await self._accepts(task, journal, progress, answer, first):
                    continue
                citations = _react_citations(progress, answer, context.chunks)
                reply = _reply(progress, answer, citations, (*context.warnings, *tools.warnings))
                return replace(reply, toolsets=tools.toolsets) if progress.step == 1 else reply
            await journal.record_answer(progress.step + 1, answer, () if progress.step else tools.toolsets)
            progress.add_answer(answer)
            called = await self._calls.make(task, journal, progress.step, answer.tool_calls, tools)
            if called.actions:
                return TurnWaits(called.actions)
            progress.add_results(answer.tool_calls, [called.results[call.id] for call in answer.tool_calls])

    async def _resume(
        self, task: AgentTask, journal: TurnJournal, progress: _Progress, tools: TurnTools
    ) -> TurnWaits | None:
        """Rebuilds what earlier executions recorded, and finishes the calls that they left open."""
        for step, recorded in _rounds(journal.steps):
            answer = step.answer
            progress.add_recorded(step)
            missing = [call for call in answer.tool_calls if call.id not in recorded]
            if missing:
                # After a wait the calls without a result have not been begun.
                resumed = not journal.after_wait
                called = await self._calls.make(task, journal, progress.step, missing, tools, resumed=resumed)
                if called.actions:
                    return TurnWaits(called.actions)
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
            temperature=agent.temperature,
            max_tokens=agent.max_tokens,
            top_p=agent.top_p,
            stop=agent.stop,
            parallel_tool_calls=agent.parallel_tool_calls,
            output_schema=agent.output_schema,
        )


def _require_named(agent: AgentSpec, tools: TurnTools) -> None:
    """Raises OptionNotSupported when the turn has to begin with a call of a tool that it does not have."""
    named = agent.forced_call
    if isinstance(named, NamedTool) and named.name not in tools:
        names = ", ".join(tools) or "none"
        raise OptionNotSupported(f"tool_choice names {named.name!r}, which this turn does not have; tools: {names}")


def _rounds(steps: Sequence[RecordedStep]) -> list[tuple[RecordedAnswer, dict[str, ToolResult]]]:
    """The recorded answers in order, each with the results of its calls by call id."""
    rounds: list[tuple[RecordedAnswer, dict[str, ToolResult]]] = []
    by_step: dict[int, dict[str, ToolResult]] = {}
    for recorded in steps:
        match recorded:
            case RecordedAnswer(step):
                by_step[step] = {}
                rounds.append((recorded, by_step[step]))
            case RecordedResult(step, result):
                by_step[step][result.call_id] = result
    return rounds


def _toolsets(steps: Sequence[RecordedStep]) -> tuple[ToolsetVersion, ...] | None:
    """The toolsets that a turn with recorded steps began with."""
    return steps[0].toolsets if steps and isinstance(steps[0], RecordedAnswer) else None


def _with_call_ids(answer: ModelAnswer, seen: set[str]) -> ModelAnswer:
    """Gives every call a short id of its own: some providers send none, or the same in every answer."""
    calls: list[ToolCall] = []
    taken = set(seen)
    for call in answer.tool_calls:
        if not 0 < len(call.id) <= _LONGEST_CALL_ID or call.id in taken:
            call = replace(call, id=f"call_{new_id()}")
        taken.add(call.id)
        calls.append(call)
    return replace(answer, tool_calls=tuple(calls)) if calls else answer


def _without_calls(answer: ModelAnswer, steps: int) -> ModelAnswer:
    """A last answer that asks for tools in spite of the limit, without its calls."""
    text = answer.text or f"I could not finish this within {steps} steps."
    return replace(answer, text=text, tool_calls=())


def _cited(text: str, chunks: Sequence[Citation]) -> tuple[Citation, ...]:
    """The chunks that the text names as [n]; all of them when it names none."""
    numbers = dict.fromkeys(int(number) for number in _CITED.findall(text))
    named = tuple(chunks[number - 1] for number in numbers if 0 < number <= len(chunks))
    return named or tuple(chunks)


def _react_citations(progress: _Progress, answer: ModelAnswer, given: tuple[Citation, ...]) -> tuple[Citation, ...]:
    if answer.citations:
        return answer.citations
    searches = [found for found in (given, *(made.result.citations for made in progress.made)) if found]
    if len(searches) == 1:
        return _cited(answer.text, searches[0])
    # Every search numbers its chunks from 1, so that the numbers of several are ambiguous.
    return tuple(dict.fromkeys(citation for search in searches for citation in search))


def _reply(
    progress: _Progress, final: ModelAnswer, citations: Sequence[Citation], warnings: Sequence[str]
) -> AgentReply:
    artifacts: tuple[ArtifactRef, ...] = tuple(artifact for made in progress.made for artifact in made.result.artifacts)
    cut = {
        "length": ("the answer was cut at the model's length limit",),
        "content_filter": ("the provider's content filter stopped the answer",),
    }.get(final.finish_reason, ())
    of_tools = [warning for made in progress.made for warning in made.result.warnings]
    return AgentReply(
        text=final.text,
        final=final,
        tool_calls=tuple(progress.made),
        citations=tuple(citations),
        artifacts=artifacts,
        usage=progress.usage,
        steps=progress.step,
        warnings=tuple(dict.fromkeys((*warnings, *of_tools, *cut))),
        output=progress.output,
    )
