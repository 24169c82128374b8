"""Waits, which suspend a turn until they're resolved. The API calls an open wait an action."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal

from libs.contracts.errors import Conflict, ErrorDetail, ValidationFailed
from libs.contracts.identity import Scope
from libs.contracts.resources.actions import ResolveAction
from libs.contracts.resources.turns import ActionKind, RequiredAction
from libs.json_text import write_json
from services.runtime.domain.conversation import JsonObject, ToolCall, ToolResult
from services.runtime.domain.tools import ToolDefinition

Decision = Literal["approve", "deny", "expired"]
_NUL: Final = b"\\u0000"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


@dataclass(frozen=True, slots=True)
class NewWait:
    """A wait to start, for step number ``step``. At ``due_at``, the service resolves the wait itself."""

    id: str
    kind: ActionKind
    step: int
    payload: JsonObject
    call_id: str | None = None
    due_at: datetime | None = None

    def required(self, expires_at: datetime) -> RequiredAction:
        return RequiredAction.model_validate(
            {"action_id": self.id, "kind": self.kind, **self.payload, "expires_at": expires_at}
        )


@dataclass(frozen=True, slots=True)
class LockedWait:
    """A wait whose session is locked. ``answer_hash`` identifies the answer that resolved it."""

    id: str
    kind: ActionKind
    step: int
    call_id: str
    payload: JsonObject
    state: Literal["open", "resolved", "closed"]
    decision: Decision | None
    answer_hash: str | None
    has_expired: bool

    def failed(self, reason: str) -> ToolResult:
        """Creates the result of a call that wasn't made or didn't succeed."""
        return ToolResult(self.call_id, self.tool, reason, "failed")

    @property
    def tool(self) -> str:
        return str(self.payload["tool_call"]["name"])


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that resolves a wait. ``content`` is the reason for a denial, or the tool's output or error."""

    kind: ActionKind
    decision: Decision | None = None
    content: str | None = None
    is_error: bool = False

    @property
    def hash(self) -> str:
        return _hash([self.kind, self.decision, self.content, self.is_error])


class WaitKind(ABC):
    """A kind of wait. Answers require ``scope`` and, unless readers may answer, write access to the session."""

    name: ActionKind
    scope: Scope
    readers_may_answer: bool = False

    @abstractmethod
    def holds_up(self, definition: ToolDefinition) -> bool:
        """Returns whether calls to the tool need this wait."""

    @abstractmethod
    def answer(self, command: ResolveAction) -> Answer:
        """Parses a caller's answer. Raises ValidationFailed if it's meant for another kind of wait."""

    @abstractmethod
    def result(self, wait: LockedWait, answer: Answer) -> ToolResult | None:
        """Returns the call's result for the model, or None if the call may now be made."""

    def payload(self, call: ToolCall) -> JsonObject:
        return {"tool_call": {"id": call.id, "name": call.name, "arguments": call.arguments}}

    def due_at(self, _payload: JsonObject) -> datetime | None:
        """Returns when the service resolves the wait itself, or None to wait for an answer or the expiry."""
        return None

    def own_answer(self, _wait: LockedWait) -> Answer:
        """Returns the service's own answer to a wait that is due or has expired."""
        return Answer(self.name, "expired")


def require_open(wait: LockedWait, turn_status: str) -> None:
    """Raises Conflict if the wait no longer accepts answers."""
    if wait.state == "resolved" and wait.decision != "expired":
        raise Conflict("The action has already received a different answer.")
    if wait.state == "closed":
        raise Conflict(f"The turn is already {turn_status}.")
    if wait.state == "resolved" or wait.has_expired:
        raise Conflict("The action has expired.")


def wrong_kind(field: str, message: str) -> ValidationFailed:
    return ValidationFailed(message, details=[ErrorDetail(loc=[field], type="wrong_kind", message=message)])


def call_hash(call: ToolCall) -> str:
    """Hashes a call, to check that the executed call is the approved one."""
    return _hash([call.id, call.name, call.arguments])


def _hash(value: Any) -> str:
    # Hash the text as it's read back: PostgreSQL can't store NUL.
    return sha256(write_json(value, sort_keys=True).replace(_NUL, _REPLACEMENT)).hexdigest()
