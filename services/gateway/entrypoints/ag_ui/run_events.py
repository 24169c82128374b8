"""Converts the events of a turn into the events of an AG-UI run."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ag_ui.core import (
    PROTOCOL_VERSION,
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)

from libs.contracts.errors import ErrorInfo
from libs.contracts.replies import ExecuteReply, Usage
from libs.contracts.resources import turns
from libs.contracts.resources.turns import RequiredAction
from libs.json_text import write_json
from services.gateway.domain.turn_progress import TurnProgress

APPROVAL: Final = "tool_approval"
"""The reason given in interrupts that request an approval."""
_DECISION: Final = {
    "type": "object",
    "properties": {"decision": {"enum": ["approve", "deny"]}, "reason": {"type": "string"}},
    "required": ["decision"],
}


class RunEvents:
    """Converts a turn's events, in order, into a run's events.

    Each step's text is a separate message. If text is discarded, a snapshot of the remaining messages follows. A
    snapshot also removes the messages of an interrupted run from the client, before they're sent again.
    """

    def __init__(self, given: RunAgentInput, session_id: str, turn_id: str) -> None:
        self._given = given
        self._session_id = session_id
        self._turn_id = turn_id
        self._messages: list[Message] = list(given.messages)
        self._own: set[str] = set()
        self._open: AssistantMessage | None = None
        self._position: tuple[int, int] | None = None
        self._length = 0

    def begin(self) -> list[BaseEvent]:
        started = RunStartedEvent(
            thread_id=self._given.thread_id,
            run_id=self._given.run_id,
            parent_run_id=self._given.parent_run_id,
            protocol_version=PROTOCOL_VERSION,
        )
        if not self._keeps_state:
            return [started]
        session = {"session_id": self._session_id, "turn_id": self._turn_id, "status": "running"}
        return [started, StateSnapshotEvent(snapshot={**(self._given.state or {}), "session": session})]

    def waiting(self, actions: Sequence[RequiredAction]) -> list[BaseEvent]:
        """Returns the events that end a run whose turn is waiting for answers."""
        interrupts = [_interrupt(action) for action in actions if action.kind == "approval"]
        pending = [action.tool_call.id for action in actions if action.kind == "tool_result"]
        outcome = (
            RunFinishedInterruptOutcome(interrupts=interrupts)
            if interrupts
            else RunFinishedSuccessOutcome(pending_tool_call_ids=pending)
        )
        result = {"session_id": self._session_id, "turn_id": self._turn_id}
        return [*self._close(), *self._status("waiting"), self._finished(outcome, result)]

    def take(self, progress: TurnProgress) -> Iterator[BaseEvent]:
        match progress.event:
            case turns.TurnCompleted() as completed:
                yield from self._close()
                yield from self._complete(completed)
            case turns.TurnFailed() as failed:
                yield from (*self._close(), *self._status("failed"), run_error(failed.error))
            case turns.TurnCancelled():
                end = self._finished(RunFinishedCancelledOutcome())
                yield from (*self._close(), *self._status("cancelled"), end)
            case turns.OutputTextDelta() as delta:
                yield from self._text(delta)
            case turns.OutputTextDone():
                yield from self._close()
            case turns.TurnRestarted() as restarted:
                yield from self._close()
                if self._position is not None and self._position[1] > restarted.resumed_from_step:
                    yield from self._give_up()
            case turns.OutputInvalid() as invalid:
                yield from self._close()
                if self._position is not None and self._position[1] == invalid.step:
                    yield from self._give_up()
            case turns.ToolCallStarted() as call:
                yield from self._close()
                yield from self._call(call, self._message_id(progress.at.attempt, call.step))
            case turns.ToolCallCompleted() as call:
                yield from self._result(call.call_id, call.output)
            case turns.ToolCallFailed() as call:
                yield from self._result(call.call_id, call.reason)

    def _text(self, delta: turns.OutputTextDelta) -> Iterator[BaseEvent]:
        position = delta.attempt, delta.step
        if position != self._position or self._open is None:
            yield from self._close()
            self._position, self._length = position, 0
            message = AssistantMessage(id=self._message_id(*position), content="")
            yield from self._add(message)
            self._open = message
            yield TextMessageStartEvent(message_id=message.id, role="assistant")
        self._length += len(delta.text)
        self._open.content = f"{self._open.content}{delta.text}"
        yield TextMessageContentEvent(message_id=self._open.id, delta=delta.text)

    def _close(self) -> Iterator[BaseEvent]:
        if self._open is not None:
            yield TextMessageEndEvent(message_id=self._open.id)
            self._open = None

    def _give_up(self) -> Iterator[BaseEvent]:
        assert self._position is not None
        yield from self._remove(self._message_id(*self._position))
        self._position, self._length = None, 0

    def _call(self, call: turns.ToolCallStarted, message_id: str) -> Iterator[BaseEvent]:
        if message_id not in self._own:
            yield from self._add(AssistantMessage(id=message_id))
        holders = (each for each in self._messages if isinstance(each, AssistantMessage))
        holder = next(each for each in holders if each.id == message_id)
        arguments = write_json(call.arguments).decode()
        made = ToolCall(id=call.call_id, function=FunctionCall(name=call.name, arguments=arguments))
        holder.tool_calls = [*(holder.tool_calls or ()), made]
        yield ToolCallStartEvent(tool_call_id=call.call_id, tool_call_name=call.name, parent_message_id=message_id)
        yield ToolCallArgsEvent(tool_call_id=call.call_id, delta=arguments)
        yield ToolCallEndEvent(tool_call_id=call.call_id)

    def _result(self, call_id: str, output: str) -> Iterator[BaseEvent]:
        """Yields the result of a call, unless the client sent the result."""
        if any(isinstance(each, ToolMessage) and each.tool_call_id == call_id for each in self._messages):
            return
        message = ToolMessage(id=f"{self._turn_id}.{call_id}", content=output, tool_call_id=call_id)
        self._messages.append(message)
        yield ToolCallResultEvent(message_id=message.id, tool_call_id=call_id, content=output, role="tool")

    def _add(self, message: AssistantMessage) -> Iterator[BaseEvent]:
        if any(each.id == message.id for each in self._messages):
            yield from self._remove(message.id)
        self._messages.append(message)
        self._own.add(message.id)

    def _remove(self, message_id: str) -> Iterator[BaseEvent]:
        """Removes a message and the results that the service added for its calls. Yields a snapshot of the rest."""
        calls = {
            call.id
            for each in self._messages
            if isinstance(each, AssistantMessage) and each.id == message_id
            for call in each.tool_calls or ()
        }
        results = {f"{self._turn_id}.{call_id}" for call_id in calls}
        self._messages = [each for each in self._messages if each.id != message_id and each.id not in results]
        self._own.discard(message_id)
        yield MessagesSnapshotEvent(messages=list(self._messages))

    def _complete(self, event: turns.TurnCompleted) -> Iterator[BaseEvent]:
        content = event.response.content
        if self._length != len(content):
            # The final step's text wasn't streamed: the run began too late to receive it.
            yield from self._whole(content)
        yield from self._status("completed")
        yield self._finished(RunFinishedSuccessOutcome(), _result_of(event), _usage_of(event))

    def _whole(self, content: str) -> Iterator[BaseEvent]:
        if content:
            message = AssistantMessage(id=f"{self._turn_id}.reply", content=content)
            yield from self._add(message)
            yield TextMessageStartEvent(message_id=message.id, role="assistant")
            yield TextMessageContentEvent(message_id=message.id, delta=content)
            yield TextMessageEndEvent(message_id=message.id)

    def _finished(
        self,
        outcome: RunFinishedSuccessOutcome | RunFinishedInterruptOutcome | RunFinishedCancelledOutcome,
        result: dict[str, Any] | None = None,
        usage: list[TokenUsage] | None = None,
    ) -> RunFinishedEvent:
        return RunFinishedEvent(
            thread_id=self._given.thread_id, run_id=self._given.run_id, outcome=outcome, result=result, usage=usage
        )

    def _status(self, status: str) -> list[BaseEvent]:
        if not self._keeps_state:
            return []
        replaced = {"op": "replace", "path": "/session/status", "value": status}
        return [StateDeltaEvent.model_validate({"delta": [replaced]})]

    @property
    def _keeps_state(self) -> bool:
        """Whether the session's state can be added to the client's state."""
        return self._given.state is None or isinstance(self._given.state, dict)

    def _message_id(self, attempt: int, step: int) -> str:
        return f"{self._turn_id}.{attempt}.{step}"


def run_error(error: ErrorInfo) -> RunErrorEvent:
    return RunErrorEvent(message=error.message, code=error.type.value)


def _interrupt(action: RequiredAction) -> Interrupt:
    return Interrupt(
        id=action.action_id,
        reason=APPROVAL,
        message=f"Allow the call to {action.tool_call.name}?",
        tool_call_id=action.tool_call.id,
        response_schema=_DECISION,
        expires_at=action.expires_at,
    )


def _result_of(reply: ExecuteReply) -> dict[str, Any]:
    response = reply.response.model_dump(mode="json", include={"output", "citations", "artifacts"})
    ids = {"session_id": reply.session_id, "turn_id": reply.turn_id, "message_id": reply.message_id}
    return {**ids, **{name: value for name, value in response.items() if value}}


def _usage_of(reply: ExecuteReply) -> list[TokenUsage] | None:
    usage = reply.usage
    if usage == Usage():
        # Hidden from public principals.
        return None
    total = usage.input_tokens + usage.output_tokens
    return [TokenUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=total)]
