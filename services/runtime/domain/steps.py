"""The recorded steps of turns, with a codec and events for each kind of step."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from libs.contracts.messages import Event
from libs.contracts.resources.turns import OutputInvalid, ToolCallCompleted, ToolCallFailed, ToolCallStarted
from services.runtime.domain.conversation import (
    AssistantMessage,
    JsonObject,
    Message,
    ModelAnswer,
    ToolMessage,
    ToolResult,
)
from services.runtime.domain.conversation_json import (
    answer_from_json,
    answer_to_json,
    tool_result_from_json,
    tool_result_to_json,
)
from services.runtime.domain.tools import ToolsetVersion


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """A model answer that requests tools, or a final answer that doesn't match the output schema (``problems``).

    A turn's first answer also records the versions of the turn's toolsets.
    """

    answer: ModelAnswer
    toolsets: tuple[ToolsetVersion, ...] = ()
    problems: tuple[str, ...] = ()
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A recorded step of a turn. `number` counts the turn's model calls from 1.

    A tool result has the number of the model answer that requested the call.
    """

    number: int
    content: ModelOutput | ToolResult

    def to_row(self) -> JsonObject:
        """Returns the step's columns in the table `steps`. For a step that isn't about one call, `call_id` is empty."""
        codec = _BY_CONTENT[type(self.content)]
        return {"number": self.number, "call_id": "", "kind": codec.kind, **codec.encode(self.content)}

    @classmethod
    def from_row(cls, number: int, kind: str, payload: JsonObject, usage: JsonObject | None = None) -> "Step":
        return cls(number, CODECS[kind].decode(payload, usage or {}))

    def events(self, session_id: str, turn_id: str) -> tuple[Event, ...]:
        ids = {"session_id": session_id, "turn_id": turn_id, "step": self.number}
        return tuple(_BY_CONTENT[type(self.content)].events(ids, self.content))


class StepCodec(Protocol):
    """Encodes and decodes one kind of step, and creates its events. Decoding ignores unknown fields."""

    kind: str
    content: type[Any]

    def encode(self, content: Any, /) -> JsonObject: ...

    def decode(self, payload: JsonObject, usage: JsonObject, /) -> Any: ...

    def events(self, ids: JsonObject, content: Any, /) -> Iterator[Event]: ...


class _ModelCodec:
    kind = "model"
    content = ModelOutput

    def encode(self, output: ModelOutput, /) -> JsonObject:
        payload = answer_to_json(output.answer)
        usage = payload.pop("usage")
        if output.problems:
            payload["problems"] = list(output.problems)
        payload |= toolsets_to_json(output.toolsets)
        return {"payload": payload, "model": output.model, "usage": usage, "status": "completed"}

    def decode(self, payload: JsonObject, usage: JsonObject, /) -> ModelOutput:
        answer = answer_from_json({**payload, "usage": usage})
        return ModelOutput(answer, _toolsets(payload), tuple(payload.get("problems", ())))

    def events(self, ids: JsonObject, output: ModelOutput, /) -> Iterator[Event]:
        answer = output.answer
        if output.problems:
            yield OutputInvalid(**ids, problems=list(output.problems), text_length=len(answer.text))
            return
        for number, call in enumerate(answer.tool_calls):
            length = 0 if number else len(answer.text)
            yield ToolCallStarted(**ids, call_id=call.id, name=call.name, arguments=call.arguments, text_length=length)


class _ToolCodec:
    kind = "tool"
    content = ToolResult

    def encode(self, result: ToolResult, /) -> JsonObject:
        return {"call_id": result.call_id, "payload": tool_result_to_json(result), "status": result.status}

    def decode(self, payload: JsonObject, _usage: JsonObject, /) -> ToolResult:
        return tool_result_from_json(payload)

    def events(self, ids: JsonObject, result: ToolResult, /) -> Iterator[Event]:
        call = {**ids, "call_id": result.call_id, "name": result.name}
        yield (
            ToolCallFailed(**call, reason=result.output)
            if result.is_error
            else ToolCallCompleted(**call, output=result.output)
        )


CODECS: Final[Mapping[str, StepCodec]] = {codec.kind: codec for codec in (_ModelCodec(), _ToolCodec())}
_BY_CONTENT: Final[Mapping[type, StepCodec]] = {codec.content: codec for codec in CODECS.values()}


def toolsets_to_json(toolsets: Iterable[ToolsetVersion]) -> JsonObject:
    """Returns the fields that record the toolsets in the first answer, or an empty object if there are none."""
    listed = [asdict(toolset) for toolset in toolsets]
    return {"toolsets": listed} if listed else {}


def _toolsets(payload: Mapping[str, Any]) -> tuple[ToolsetVersion, ...]:
    return tuple(ToolsetVersion(item["name"], item["version"]) for item in payload.get("toolsets", ()))


def rounds(steps: Sequence[Step]) -> list[tuple[ModelOutput, dict[str, ToolResult]]]:
    """Returns the recorded model answers in order, each with the results of its calls by call ID."""
    found: list[tuple[ModelOutput, dict[str, ToolResult]]] = []
    results: dict[int, dict[str, ToolResult]] = {}
    for step in steps:
        match step.content:
            case ModelOutput() as output:
                results[step.number] = {}
                found.append((output, results[step.number]))
            case ToolResult() as result:
                results[step.number][result.call_id] = result
    return found


def calls_made(steps: Sequence[Step]) -> tuple[Message, ...]:
    """Returns the tool calls and results of an ended turn, as messages for later turns."""
    messages: list[Message] = []
    for output, results in rounds(steps):
        answer = output.answer
        calls = tuple(call for call in answer.tool_calls if call.id in results)
        if calls:
            messages.append(AssistantMessage(answer.text, calls, answer.provider_data))
            messages.extend(ToolMessage(results[call.id]) for call in calls)
    return tuple(messages)
