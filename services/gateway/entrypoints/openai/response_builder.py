"""Builds responses, and the events of their streams, from the events of turns.

When a turn waits for answers, its response ends, and the answers start another response. A turn's responses are
numbered from 0. An event's number is derived from the position in the turn's stream, so any replica can resume the
stream.
"""

from typing import Any, Final, NamedTuple

from libs.contracts.citations import Citation
from libs.contracts.errors import ErrorInfo
from libs.contracts.replies import ToolCallRecord, Usage
from libs.contracts.resources import turns
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.turns import RequiredAction
from services.gateway.domain.turn_progress import TurnProgress
from services.gateway.entrypoints.openai import response_items as items
from services.gateway.entrypoints.openai.conventions import error_fields
from services.gateway.entrypoints.openai.message_parts import without_fence
from services.gateway.entrypoints.openai.response_items import Json

# An event's number is the sequence of the turn's event times this, plus the index among derived events and texts. All
# numbers are below 2^53.
_PER_EVENT: Final = 2**25
_CUT: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_TEXT_BEGINS: Final = 64
_TEXT: Final = 66


def response_id(turn_id: str, part: int = 0) -> str:
    return f"resp_{turn_id}" if part == 0 else f"resp_{turn_id}_{part}"


class ResponseBuilder:
    """Builds one response of a turn, from all of the turn's events. ``head``: the response's constant fields."""

    def __init__(self, turn_id: str, head: Json, part: int = 0) -> None:
        self.status = "queued"
        self.has_ended = False
        self.error: ErrorInfo | None = None
        self.inputs: list[Json] = []
        """The answers that started this response, as input items."""
        self.open_actions: dict[str, RequiredAction] = {}
        self.asked: dict[str, RequiredAction] = {}
        """The actions for which the turn was waiting when this response ended."""
        self.turn_id = turn_id
        self._head = head
        self._wanted = part
        self.part = 0
        """The number of the turn's current response."""
        self._output: list[Json] = []
        self._usage: Usage | None = None
        self._citations: list[Citation] = []
        self._calls: dict[str, Json] = {}
        self._client_calls: set[str] = set()
        self._approvals: dict[str, str] = {}
        self._result: Json | None = None
        self._text: _Text | None = None
        self._has_begun = False
        self._sequence = 0
        self._slot = 0
        self._asked_at = (0, 0)
        self._events: list[Json] = []

    def response(self) -> Json:
        return self._result or {
            **self._head,
            "id": response_id(self.turn_id, self._wanted),
            "status": self.status,
            "error": None if self.error is None else _error(self.error),
            "output": list(self._output) if self.part == self._wanted else [],
            "usage": None if self._usage is None else items.usage_object(self._usage),
        }

    def take(self, progress: TurnProgress) -> list[Json]:
        """Accepts an event of the turn. Returns the resulting events of this response's stream."""
        self._sequence, event = progress.at.sequence, progress.event
        self._slot, self._events = 0, []
        if isinstance(event, turns.OutputTextDelta):
            self._take_text(event)
        elif not isinstance(event, turns.OutputTextDone):
            self._take_event(event)
        return self._events

    def end_if_waiting(self, turn: turns.Turn) -> list[Json]:
        """Ends the response if the turn is waiting and all of its actions are known. Returns the events to send."""
        waits_for = {action.action_id for action in turn.required_actions}
        self._events = []
        if turn.status == "waiting" and waits_for and waits_for <= self.open_actions.keys():
            self._finish_wait()
        return self._events

    def _take_event(self, event: Any) -> None:
        match event:
            case turns.TurnQueued():
                self._begin("queued")
            case turns.TurnStarted():
                self._begin("in_progress")
            case turns.TurnRestarted() | turns.OutputInvalid():
                self._close_text(final=False)
            case turns.ToolCallStarted():
                self._close_text(final=False)
                self._calls[event.call_id] = event.arguments
            case turns.ToolCallCompleted():
                self._take_result(event.call_id, event.name, event.output, None)
            case turns.ToolCallFailed():
                self._take_result(event.call_id, event.name, None, event.reason)
            case turns.TurnActionRequired():
                self._ask(event.action)
            case turns.TurnActionResolved():
                self._resolve(event)
            case turns.CitationAdded():
                self._citations.append(event.citation)
            case turns.TurnCompleted():
                self._close_text(final=True, value=event.response.output)
                for call in event.response.tool_calls:
                    if call.status == "requested":
                        self._call(f"fc_{self.turn_id}_{call.id}", call)
                self._usage = event.usage
                self._complete(event.finish_reason)
            case turns.TurnFailed():
                self.error = event.error
                self._break_off("failed")
            case turns.TurnCancelled():
                self._break_off("cancelled")

    def _begin(self, status: str) -> None:
        self.status = status
        if not self._has_begun:
            self._has_begun = True
            self._emit("response.created", response=self.response())
        self._emit(f"response.{status}", response=self.response())

    def _take_text(self, delta: turns.OutputTextDelta) -> None:
        text = self._text
        if text is None:
            self._slot = _TEXT_BEGINS
            message_id = f"msg_{self.turn_id}_{self._sequence}"
            position = self._add({**items.message_item(message_id, "", "in_progress", final=True), "content": []})
            text = self._text = _Text({**position, "content_index": 0}, [])
            self._emit("response.content_part.added", **text.position, part=items.text_part(""))
        text.pieces.append(delta.text)
        self._slot = _TEXT + delta.offset + len(delta.text)
        self._emit("response.output_text.delta", **text.position, delta=delta.text, logprobs=[])

    def _complete(self, reason: str) -> None:
        if (cut := _CUT.get(reason)) is None:
            self._finish("completed", "response.completed")
            return
        self._head = {**self._head, "incomplete_details": {"reason": cut}}
        self._finish("incomplete", "response.incomplete")

    def _close_text(self, *, final: bool, value: Any = None) -> None:
        """Ends the open message. If the text isn't ``final``, its item in the response stays empty, so that clients
        don't add the text to the reply.

        ``value``: the JSON value in the text, which some models wrap in a code fence.
        """
        text, self._text = self._text, None
        if text is None:
            return
        content, citations = without_fence("".join(text.pieces), value), self._citations if final else ()
        status = "completed" if final else "incomplete"
        item = items.message_item(text.position["item_id"], content, status, citations, final=final)
        self._emit("response.output_text.done", **text.position, text=content, logprobs=[])
        self._emit("response.content_part.done", **text.position, part=item["content"][0])
        self._done(item, text.position)
        if not final:
            self._output[text.position["output_index"]] = {**item, "content": []}

    def _take_result(self, call_id: str, tool: str, output: str | None, reason: str | None) -> None:
        arguments = self._calls.pop(call_id, {})
        if call_id in self._client_calls:
            item_id = f"fco_{self.turn_id}_{self._sequence}"
            given = {"type": "function_call_output", "id": item_id, "status": "completed", "call_id": call_id}
            part = self.part + bool(self.open_actions)
            self._answer({**given, "output": output if reason is None else reason}, part)
            return
        item = items.tool_call_item(f"mcp_{self.turn_id}_{self._sequence}", tool, arguments, output, reason)
        item["approval_request_id"] = self._approvals.get(call_id)
        position = self._add({**item, "status": "in_progress", "arguments": "", "output": None, "error": None})
        self._emit("response.mcp_call.in_progress", **position)
        self._emit("response.mcp_call_arguments.delta", **position, delta=item["arguments"])
        self._emit("response.mcp_call_arguments.done", **position, arguments=item["arguments"])
        self._emit("response.mcp_call.completed" if reason is None else "response.mcp_call.failed", **position)
        self._done(item, position)

    def _ask(self, action: RequiredAction) -> None:
        self._close_text(final=False)
        self.open_actions[action.action_id] = action
        if self.part == self._wanted:
            self.asked[action.action_id] = action
        if action.kind == "approval":
            item = items.approval_request_item(action)
            self._approvals[action.tool_call.id] = item["id"]
            self._done(item, self._add(item))
        else:
            self._client_calls.add(action.tool_call.id)
            self._call(f"fc_{action.action_id}", action.tool_call)
        self._asked_at = (self._sequence, self._slot)

    def _call(self, item_id: str, call: RequestedToolCall | ToolCallRecord) -> None:
        item = items.function_call_item(item_id, call)
        position = self._add({**item, "status": "in_progress", "arguments": ""})
        self._emit("response.function_call_arguments.delta", **position, delta=item["arguments"])
        self._emit("response.function_call_arguments.done", **position, name=item["name"], arguments=item["arguments"])
        self._done(item, position)

    def _resolve(self, event: turns.TurnActionResolved) -> None:
        self._finish_wait()
        self.open_actions.pop(event.action_id, None)
        if event.kind == "approval":
            approved = event.decision == "approve"
            request_id = f"mcpr_{event.action_id}"
            answer = {"type": "mcp_approval_response", "id": f"mcpa_{event.action_id}", "approve": approved}
            self._answer({**answer, "approval_request_id": request_id}, self.part + 1)
        if not self.open_actions:
            self.part += 1
            self._output, self._has_begun = [], False
            self._begin("in_progress")

    def _answer(self, item: Json, part: int) -> None:
        if part == self._wanted:
            self.inputs.append(item)

    def _finish_wait(self) -> None:
        """Ends the response at the position of its last action, no matter when the wait was noticed."""
        sequence, slot = self._sequence, self._slot
        self._sequence, self._slot = self._asked_at
        self._finish("completed", "response.completed")
        self._sequence, self._slot = sequence, slot

    def _break_off(self, status: str) -> None:
        self._close_text(final=False)
        if self.open_actions:
            self._finish_wait()
            if self.part == self._wanted and self._result is not None:
                self._result["status"] = status
            return
        self._finish(status, "response.failed")

    def _finish(self, status: str, event: str) -> None:
        if self.part != self._wanted or self.has_ended:
            return
        self.status = status
        self._result = self.response()
        self._emit(event, response=dict(self._result))
        self.has_ended = True

    def _add(self, item: Json) -> Json:
        position = {"item_id": item["id"], "output_index": len(self._output)}
        self._output.append(item)
        self._emit("response.output_item.added", output_index=position["output_index"], item=item)
        return position

    def _done(self, item: Json, position: Json) -> None:
        self._output[position["output_index"]] = item
        self._emit("response.output_item.done", output_index=position["output_index"], item=item)

    def _emit(self, event: str, **fields: Any) -> None:
        if self.part == self._wanted and not self.has_ended:
            number = self._sequence * _PER_EVENT + self._slot
            self._events.append({"type": event, "sequence_number": number, **fields})
        self._slot += 1


class _Text(NamedTuple):
    """A message whose text is still arriving."""

    position: Json
    pieces: list[str]


def after(events: list[Json], number: int) -> list[Json]:
    """Returns the events with numbers above ``number``. If part of a text was sent, returns only the rest."""
    left = []
    for event in events:
        beyond = event["sequence_number"] - number
        if event["type"] == "response.output_text.delta" and 0 < beyond < len(event["delta"]):
            left.append({**event, "delta": event["delta"][-beyond:]})
        elif beyond > 0:
            left.append(event)
    return left


def _error(info: ErrorInfo) -> Json:
    fields = error_fields(info)
    code = "server_error" if fields["type"] == "server_error" else fields["code"]
    return {"code": code, "message": fields["message"]}
