"""A turn's messages, calls and usage so far, and the reply built from them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from libs.contracts.errors import ValidationFailed
from libs.contracts.identifiers import new_id
from libs.json_schema import SchemaInvalid, compile_schema
from libs.json_text import NotJson, read_json, write_json
from services.runtime.domain.agents import AgentReply, MadeCall
from services.runtime.domain.conversation import (
    ArtifactRef,
    AssistantMessage,
    Citation,
    JsonObject,
    Message,
    ModelAnswer,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from services.runtime.domain.steps import ModelOutput, Step
from services.runtime.domain.tools import ToolsetVersion

REPETITIONS: Final = 3


class RepeatedCalls:
    """Counts calls with the same arguments and result, in recorded order so that a resumed turn gets the same hints."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def hinted(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Returns the result for the model, with a hint if the same call keeps returning the same result."""
        key = write_json(
            [call.name, call.arguments, call.validation_error, result.status, result.output], sort_keys=True
        )
        self._seen[key] += 1
        times = self._seen[key]
        return (
            result if times < REPETITIONS else replace(result, output=f"{result.output}\n\n{_hint(call.name, times)}")
        )


def _hint(name: str, times: int) -> str:
    return (
        f"[{name} has now returned the same result for the same arguments {times} times in this turn. Calling {name} "
        "like this again won't help. Use what you have, or try something else.]"
    )


REPEATS: Final = 2
"""Number of retries after an answer that doesn't match the output schema."""
_FENCED: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)\n?\s*```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Output:
    value: Any = None
    problems: tuple[str, ...] = ()


async def read_output(schema: JsonObject, text: str) -> Output:
    """Parses and validates the answer's JSON, ignoring a code fence. Raises ValidationFailed for an invalid schema."""
    try:
        compiled = compile_schema(schema)
    except SchemaInvalid as problem:
        raise ValidationFailed(f"output_schema can't be used: {problem}.") from problem
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value = read_json(fenced[1] if fenced else text)
        # A value that can be parsed may be nested too deeply to be encoded.
        write_json(value)
    except (NotJson, TypeError) as problem:
        return Output(problems=(f"the answer isn't JSON: {problem}",))
    return Output(value, tuple(await compiled.problems(value, name="the answer")))


def correction(problems: Sequence[str]) -> UserMessage:
    """Creates a message that tells the model why its answer was rejected."""
    lines = "\n".join(f"* {problem}" for problem in problems)
    return UserMessage(
        (TextPart(f"Your answer was rejected:\n{lines}\nAnswer again with JSON only. It must match the schema."),)
    )


_CITED: Final = re.compile(r"\[(\d{1,3})\]")
_LONGEST_CALL_ID: Final = 200


@dataclass(slots=True)
class TurnProgress:
    """The state of a turn's execution. When a turn resumes, the state is rebuilt from the recorded steps.

    `refused` counts the answers that didn't match the output schema.
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


def recorded_toolsets(steps: Sequence[Step]) -> tuple[ToolsetVersion, ...] | None:
    """Returns the toolset versions from the start of a turn, or None if it has no recorded steps."""
    first = steps[0].content if steps else None
    return first.toolsets if isinstance(first, ModelOutput) else None


def with_call_ids(answer: ModelAnswer, seen: set[str]) -> ModelAnswer:
    """Ensures that every call has a short, unique ID, since some providers omit or repeat IDs."""
    calls: list[ToolCall] = []
    taken = set(seen)
    for call in answer.tool_calls:
        if not 0 < len(call.id) <= _LONGEST_CALL_ID or call.id in taken:
            call = replace(call, id=f"call_{new_id()}")
        taken.add(call.id)
        calls.append(call)
    return replace(answer, tool_calls=tuple(calls)) if calls else answer
