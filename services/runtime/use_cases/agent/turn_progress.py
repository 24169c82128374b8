"""Progress of a turn: its messages, calls and usage so far, and the reply that they make."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from libs.contracts.identifiers import new_id
from services.runtime.domain.agents import AgentReply, MadeCall
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
from services.runtime.domain.steps import ModelOutput, Step
from services.runtime.domain.tools import ToolsetVersion
from services.runtime.use_cases.agent.repeated_calls import RepeatedCalls
from services.runtime.use_cases.agent.structured_output import correction

_CITED: Final = re.compile(r"\[(\d{1,3})\]")
_LONGEST_CALL_ID: Final = 200


@dataclass(slots=True)
class TurnProgress:
    """State of one run of a turn, rebuilt from the recorded steps when it resumes.

    `refused` counts answers that did not fit the output schema.
    """

    messages: list[Message]
    made: list[MadeCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    step: int = 0
    seen_ids: set[str] = field(default_factory=set)
    repeated: RepeatedCalls = field(default_factory=RepeatedCalls)
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
            self.messages.append(ToolMessage(self.repeated.hinted(call, result)))

    def reply(self, final: ModelAnswer, citations: Sequence[Citation], warnings: Sequence[str]) -> AgentReply:
        artifacts: tuple[ArtifactRef, ...] = tuple(artifact for made in self.made for artifact in made.result.artifacts)
        cut = {
            "length": ("the answer was cut at the model's length limit",),
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
        """Chunks that the final answer rests on, among the `given` ones and those that calls found.

        An answer names them as [n], as models are asked to; one that names none rests on none. Structured output has
        no place for names, so all of them may have gone into it.
        """
        if final.citations:
            return final.citations
        searches = [found for found in (given, *(made.result.citations for made in self.made)) if found]
        if self.output is not None:
            return tuple(dict.fromkeys(citation for search in searches for citation in search))
        # Every search numbers its chunks from 1, so a number may mean a chunk of each.
        numbers = [int(number) for number in _CITED.findall(final.text)]
        named = (search[number - 1] for number in numbers for search in searches if 0 < number <= len(search))
        return tuple(dict.fromkeys(named))


def recorded_toolsets(steps: Sequence[Step]) -> tuple[ToolsetVersion, ...] | None:
    """The toolsets that a turn with recorded steps began with."""
    first = steps[0].content if steps else None
    return first.toolsets if isinstance(first, ModelOutput) else None


def with_call_ids(answer: ModelAnswer, seen: set[str]) -> ModelAnswer:
    """Gives every call a short id of its own: some providers send none, or the same in every answer."""
    calls: list[ToolCall] = []
    taken = set(seen)
    for call in answer.tool_calls:
        if not 0 < len(call.id) <= _LONGEST_CALL_ID or call.id in taken:
            call = replace(call, id=f"call_{new_id()}")
        taken.add(call.id)
        calls.append(call)
    return replace(answer, tool_calls=tuple(calls)) if calls else answer
