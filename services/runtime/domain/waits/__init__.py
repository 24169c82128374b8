"""Waits: what a turn waits for, and how that is resolved. In the API an open one is an action.

A kind of wait is a module of this package, listed in `kinds.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal, Protocol

from libs.contracts.errors import Conflict, ErrorDetail, ValidationFailed
from libs.contracts.identity import Scope
from libs.contracts.resources.actions import ResolveAction
from libs.contracts.resources.turns import ActionKind, RequiredAction, Turn
from libs.json_text import write_json
from services.runtime.domain.conversation import JsonObject, ToolCall, ToolResult
from services.runtime.domain.steps import Step
from services.runtime.domain.tools import ToolDefinition

Decision = Literal["approve", "deny", "expired"]
_NUL: Final = b"\\u0000"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


@dataclass(frozen=True, slots=True)
class NewWait:
    """A wait that a turn is about to begin, at the step that it holds up.

    ``payload`` has the fields of its kind in the API. ``call_id`` is None for a wait that is not about one call. At
    ``due_at`` the service resolves it.
    """

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
    """A wait under its session's lock. ``answer_hash`` is that of the answer that resolved it."""

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
        """The result of a call that was not made, or did not succeed."""
        return ToolResult(self.call_id, self.tool, reason, "failed")

    @property
    def tool(self) -> str:
        return str(self.payload["tool_call"]["name"])


@dataclass(frozen=True, slots=True)
class Answer:
    """Resolves a wait. ``content`` is the reason of a denial, or the tool's output or error."""

    kind: ActionKind
    decision: Decision | None = None
    content: str | None = None
    is_error: bool = False

    @property
    def hash(self) -> str:
        return _hash([self.kind, self.decision, self.content, self.is_error])


class WaitKind(ABC):
    """A kind of wait. An answer takes ``scope``, and permission to change the session unless readers may answer."""

    name: ActionKind
    scope: Scope
    readers_may_answer: bool = False

    @abstractmethod
    def holds_up(self, definition: ToolDefinition) -> bool:
        """Whether calls of the tool wait for this."""

    @abstractmethod
    def answer(self, command: ResolveAction) -> Answer:
        """Raises ValidationFailed for an answer of another kind."""

    @abstractmethod
    def told(self, wait: LockedWait, answer: Answer) -> ToolResult | None:
        """The result for the model; None when the call is made now."""

    def payload(self, call: ToolCall) -> JsonObject:
        return {"tool_call": {"id": call.id, "name": call.name, "arguments": call.arguments}}

    def due_at(self, _payload: JsonObject) -> datetime | None:
        """When the service resolves the wait by itself; None when only an answer or its expiry does."""
        return None

    def own_answer(self, _wait: LockedWait) -> Answer:
        """The service's own answer to a wait that is due or has expired."""
        return Answer(self.name, "expired")


class WaitWriter(Protocol):
    """Resolves waits within a transaction that has locked their session."""

    async def find(self, turn_id: str, wait_id: str) -> LockedWait | None: ...

    async def due(self, turn_id: str) -> Sequence[LockedWait]:
        """The open ones whose time has come."""

    async def resolve(self, wait: LockedWait, answer: Answer, step: Step | None, *, by: str, events: int) -> bool:
        """Resolves an open wait and records the ``step`` with the call's result.

        The turn takes numbers for ``events`` events. Returns whether it resumes: no other wait is open.
        """

    async def turn(self, turn_id: str) -> Turn:
        """The turn as callers see it."""


def require_open(wait: LockedWait, turn_status: str) -> None:
    """Raises Conflict for a wait that takes no more answers."""
    if wait.state == "resolved" and wait.decision != "expired":
        raise Conflict("The action has already been answered differently.")
    if wait.state == "closed":
        raise Conflict(f"The turn is already {turn_status}.")
    if wait.state == "resolved" or wait.has_expired:
        raise Conflict("The action has expired.")


def wrong_kind(field: str, message: str) -> ValidationFailed:
    return ValidationFailed(message, details=[ErrorDetail(loc=[field], type="wrong_kind", message=message)])


def call_hash(call: ToolCall) -> str:
    """Identifies name and arguments of a call: what was shown is what runs."""
    return _hash([call.id, call.name, call.arguments])


def _hash(value: Any) -> str:
    # As it is read back: PostgreSQL's text has no NUL.
    return sha256(write_json(value, sort_keys=True).replace(_NUL, _REPLACEMENT)).hexdigest()
