"""Converts a turn into an A2A task, and the turn's events into updates of the task."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import ParseDict

from libs.contracts.errors import ErrorInfo
from libs.contracts.replies import ExecuteReply
from libs.contracts.resources import turns
from libs.contracts.resources.turns import RequiredAction, Turn, TurnStatus
from libs.contracts.timestamps import now_text
from services.gateway.domain.turn_progress import TurnProgress

REPLY: Final = "reply"
"""The ID of the artifact with the model's text. At the turn's end, the artifact contains exactly the reply."""
OUTPUT: Final = "output"
"""The ID of the artifact with the structured value, for agents with an output schema."""
STATES: Final[Mapping[TurnStatus, TaskState]] = {
    "queued": TaskState.TASK_STATE_SUBMITTED,
    "running": TaskState.TASK_STATE_WORKING,
    "waiting": TaskState.TASK_STATE_INPUT_REQUIRED,
    "completed": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
}
_ANSWER_BY: Final = "To answer, send a message to this task with a data part for each action."


def task_of(turn: Turn, files: str, history: Sequence[Message] = (), *, with_artifacts: bool = True) -> Task:
    """Converts a turn into a task. ``files``: the URL to which an artifact's ID is appended."""
    message = None
    if turn.status == "waiting":
        message = _waiting(turn.session_id, turn.turn_id, turn.required_actions)
    elif turn.error is not None:
        message = _failure(turn.session_id, turn.turn_id, turn.error)
    status = _status(STATES[turn.status], turn.finished_at or turn.started_at or turn.created_at, message)
    artifacts: list[Artifact] = []
    if turn.reply is not None and with_artifacts:
        artifacts = [_reply(turn.reply.response.content, _facts_of(turn.reply)), *_further(turn.reply, files)]
    return Task(id=turn.turn_id, context_id=turn.session_id, status=status, artifacts=artifacts, history=history)


def begun_task(session_id: str, turn_id: str, status: TurnStatus, history: Sequence[Message]) -> Task:
    return Task(id=turn_id, context_id=session_id, status=_status(STATES[status], now_text()), history=history)


class TaskUpdates:
    """Converts a turn's events, in order, into updates of its task.

    The first piece of each step's text replaces the artifact ``reply``, and later pieces are appended. So a client that
    applies all updates ends up with exactly the reply, even after an abandoned attempt.
    """

    def __init__(self, session_id: str, turn_id: str, files: str) -> None:
        self._session_id = session_id
        self._turn_id = turn_id
        self._files = files
        self._position: tuple[int, int] | None = None
        self._length = 0

    def waiting(self, actions: Sequence[RequiredAction]) -> StreamResponse:
        """Returns the update for a turn that is waiting for answers."""
        message = _waiting(self._session_id, self._turn_id, actions)
        return self._status_update(TaskState.TASK_STATE_INPUT_REQUIRED, message)

    def take(self, progress: TurnProgress) -> Iterator[StreamResponse]:
        match progress.event:
            case turns.TurnCompleted() as completed:
                yield from self._complete(completed)
            case turns.TurnFailed() as failed:
                message = _failure(self._session_id, self._turn_id, failed.error)
                yield self._status_update(TaskState.TASK_STATE_FAILED, message)
            case turns.TurnCancelled():
                yield self._status_update(TaskState.TASK_STATE_CANCELED)
            case turns.OutputTextDelta() as delta:
                yield self._text(delta)
            case turns.TurnStarted():
                yield self._working(progress)
            case turns.TurnRestarted() as restarted:
                if self._position is not None and self._position[1] > restarted.resumed_from_step:
                    self._position, self._length = None, 0
                    yield self._artifact_update(_reply(""))
                yield self._working(progress, {"restarted": {"attempt": restarted.attempt}})
            case turns.ToolCallStarted() as call:
                about = {"id": call.call_id, "name": call.name, "arguments": call.arguments}
                yield self._working(progress, {"tool_call": about})
            case turns.ToolCallCompleted() as call:
                about = {"id": call.call_id, "name": call.name, "status": "completed", "output": call.output}
                yield self._working(progress, {"tool_result": about})
            case turns.ToolCallFailed() as call:
                about = {"id": call.call_id, "name": call.name, "status": "failed", "output": call.reason}
                yield self._working(progress, {"tool_result": about})

    def _text(self, delta: turns.OutputTextDelta) -> StreamResponse:
        position = delta.attempt, delta.step
        if position != self._position:
            self._position, self._length = position, 0
        is_first = self._length == 0
        self._length += len(delta.text)
        return self._artifact_update(_reply(delta.text), append=not is_first)

    def _complete(self, event: turns.TurnCompleted) -> Iterator[StreamResponse]:
        text = event.response.content
        # The streamed pieces are the whole text, unless nothing was streamed or the final step has no text.
        is_whole = 0 < self._length == len(text)
        last = _reply("" if is_whole else text, _facts_of(event))
        yield self._artifact_update(last, append=is_whole, last_chunk=True)
        for artifact in _further(event, self._files):
            yield self._artifact_update(artifact, last_chunk=True)
        yield self._status_update(TaskState.TASK_STATE_COMPLETED)

    def _working(self, progress: TurnProgress, about: Mapping[str, Any] | None = None) -> StreamResponse:
        message = None
        if about is not None:
            own_id = f"{self._turn_id}.{progress.at.sequence}"
            message = _message(self._session_id, self._turn_id, own_id, [data_part(about)])
        return self._status_update(TaskState.TASK_STATE_WORKING, message)

    def _status_update(self, state: TaskState, message: Message | None = None) -> StreamResponse:
        status = _status(state, now_text(), message)
        update = TaskStatusUpdateEvent(task_id=self._turn_id, context_id=self._session_id, status=status)
        return StreamResponse(status_update=update)

    def _artifact_update(self, artifact: Artifact, *, append: bool = False, last_chunk: bool = False) -> StreamResponse:
        update = TaskArtifactUpdateEvent(
            task_id=self._turn_id,
            context_id=self._session_id,
            artifact=artifact,
            append=append,
            last_chunk=last_chunk,
        )
        return StreamResponse(artifact_update=update)


def data_part(value: Mapping[str, Any]) -> Part:
    part: Part = ParseDict({"data": value}, Part())
    return part


def _status(state: TaskState, time: str, message: Message | None = None) -> TaskStatus:
    status = TaskStatus(state=state, message=message)
    status.timestamp.FromJsonString(time)
    return status


def _message(session_id: str, turn_id: str, message_id: str, parts: Sequence[Part]) -> Message:
    return Message(message_id=message_id, context_id=session_id, task_id=turn_id, role=Role.ROLE_AGENT, parts=parts)


def _waiting(session_id: str, turn_id: str, actions: Sequence[RequiredAction]) -> Message:
    parts = [Part(text=_ANSWER_BY), *(data_part(action.model_dump(mode="json")) for action in actions)]
    own_id = f"{turn_id}.{actions[0].action_id}" if actions else turn_id
    return _message(session_id, turn_id, own_id, parts)


def _failure(session_id: str, turn_id: str, error: ErrorInfo) -> Message:
    about = data_part({"error": {"type": error.type.value, "message": error.message}})
    return _message(session_id, turn_id, f"{turn_id}.error", [Part(text=error.message), about])


def _reply(text: str, facts: Mapping[str, Any] | None = None) -> Artifact:
    artifact = Artifact(artifact_id=REPLY, name=REPLY, parts=[Part(text=text, media_type="text/plain")])
    if facts:
        ParseDict(facts, artifact.metadata)
    return artifact


def _facts_of(reply: ExecuteReply) -> dict[str, Any]:
    citations = [citation.model_dump(mode="json", exclude_none=True) for citation in reply.response.citations]
    facts = {"message_id": reply.message_id, "usage": reply.usage.model_dump()}
    return {**facts, "citations": citations} if citations else facts


def _further(reply: ExecuteReply, files: str) -> Iterator[Artifact]:
    if reply.response.output is not None:
        part = ParseDict({"data": reply.response.output, "mediaType": "application/json"}, Part())
        yield Artifact(artifact_id=OUTPUT, name=OUTPUT, parts=[part])
    for made in reply.response.artifacts:
        name, media_type = str(made.get("name", "")), str(made.get("content_type", ""))
        own_id = str(made["artifact_id"])
        part = Part(url=f"{files}/{own_id}/download/", filename=name, media_type=media_type)
        yield Artifact(artifact_id=own_id, name=name, parts=[part])
