"""Converts a turn into a chat completion, either as one object or as chunks."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from libs.contracts.errors import Conflict, ErrorDetail, ModelFailed, error_from
from libs.contracts.replies import ExecuteReply, ToolCallRecord
from libs.contracts.resources import turns
from libs.contracts.resources.turns import RequiredAction
from libs.json_text import write_json
from services.gateway.domain.turn_progress import TurnProgress
from services.gateway.entrypoints.door.streams import KEEP_ALIVE
from services.gateway.entrypoints.openai.message_parts import without_fence

_ANOTHER_TEXT: Final = "The response was restarted after a crash, and its text changed. Send the request again."
DONE: Final = b"data: [DONE]\n\n"


def completion_id(turn_id: str) -> str:
    return f"chatcmpl_{turn_id}"


def completion(model: str, reply: ExecuteReply) -> bytes:
    calls = requested(reply)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content_of(reply) or (None if calls else ""),
        "refusal": None,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason, "logprobs": None}
    return orjson.dumps({**_head(model, reply.turn_id, "chat.completion"), "choices": [choice], "usage": _usage(reply)})


def content_of(reply: ExecuteReply) -> str:
    return without_fence(reply.response.content, reply.response.output)


def requested(reply: ExecuteReply) -> list[ToolCallRecord]:
    return [call for call in reply.response.tool_calls if call.status == "requested"]


def needs_approval(session_id: str, turn_id: str, actions: Sequence[RequiredAction]) -> Conflict:
    """Returns the error for a turn that is waiting for an approval, which chat completions can't express."""
    named = ", ".join(f"{action.tool_call.name} (action {action.action_id})" for action in actions) or "a call"
    message = (
        f"Turn {turn_id} of session {session_id} is waiting for approval of {named}."
        " The turn continues once you answer."
    )
    return Conflict(message, details=[ErrorDetail(loc=[], type="requires_action", message=message)])


@dataclass(slots=True)
class ChatStream:
    """Converts a turn's events into chunks. A retried step continues after the text that has been sent.

    ``whole``: whether to send the text in one piece at the end. A schema requires this, because text that violates the
    schema is generated again.
    """

    model: str
    session_id: str
    turn_id: str
    include_usage: bool
    whole: bool
    sent: dict[int, str] = field(default_factory=dict)
    restarted: bool = False

    async def chunks(self, events: AsyncGenerator[TurnProgress | None, None]) -> AsyncGenerator[bytes, None]:
        """Raises an error if the turn doesn't complete or if it changes text that was already sent."""
        begun = False
        async with aclosing(events):
            async for progress in events:
                if progress is None:
                    yield KEEP_ALIVE
                    continue
                if not begun:
                    begun = True
                    yield self._chunk({"role": "assistant", "content": "", "refusal": None})
                for chunk in self._of(progress.event):
                    yield chunk

    def _of(self, event: object) -> list[bytes]:
        match event:
            case turns.OutputTextDelta() if not self.whole:
                text = self._new_text(event)
                return [self._chunk({"content": text})] if text else []
            case turns.TurnRestarted():
                self.restarted = True
            case turns.TurnActionRequired():
                raise needs_approval(self.session_id, self.turn_id, [event.action])
            case turns.TurnCompleted():
                return self._end(event)
            case turns.TurnFailed():
                raise error_from(event.error)
            case turns.TurnCancelled():
                raise Conflict("The turn was cancelled.")
        return []

    def _new_text(self, delta: turns.OutputTextDelta) -> str:
        """Returns the part of a delta that hasn't been sent. Raises ``ModelFailed`` if sent text has changed."""
        sent = self.sent.get(delta.step, "")
        known = max(len(sent) - delta.offset, 0)
        if not sent[delta.offset :].startswith(delta.text[:known]):
            raise ModelFailed(_ANOTHER_TEXT)
        self.sent[delta.step] = sent + delta.text[known:]
        return delta.text[known:]

    def _end(self, reply: ExecuteReply) -> list[bytes]:
        chunks: list[bytes] = []
        if self.restarted and self.sent and reply.response.content not in self.sent.values():
            raise ModelFailed(_ANOTHER_TEXT)
        if self.whole and (text := content_of(reply)):
            chunks.append(self._chunk({"content": text}))
        for index, call in enumerate(requested(reply)):
            chunks.append(self._chunk({"tool_calls": [{"index": index, **_call(call)}]}))
        chunks.append(self._chunk({}, finish_reason=reply.finish_reason))
        if self.include_usage:
            chunks.append(self._render({"choices": [], "usage": _usage(reply)}))
        return [*chunks, DONE]

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return self._render({"choices": [choice], **({"usage": None} if self.include_usage else {})})

    def _render(self, fields: dict[str, Any]) -> bytes:
        head = _head(self.model, self.turn_id, "chat.completion.chunk")
        return b"data: " + orjson.dumps({**head, **fields}) + b"\n\n"


def _head(model: str, turn_id: str, kind: str) -> dict[str, Any]:
    return {"id": completion_id(turn_id), "object": kind, "created": int(time.time()), "model": model}


def _call(call: ToolCallRecord) -> dict[str, Any]:
    function = {"name": call.name, "arguments": write_json(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function}


def _usage(reply: ExecuteReply) -> dict[str, int]:
    asked, answered = reply.usage.input_tokens, reply.usage.output_tokens
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
