"""Actions of waiting turns: the answers that they need from outside, and the rules for giving them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal, Protocol

from libs.contracts.api.sessions import ActionKind, RequestedToolCall, RequiredAction, Turn
from libs.contracts.errors import Conflict, ErrorDetail, ValidationFailed
from libs.eventing import Transaction
from libs.json_text import write_json
from services.runtime.domain.conversation import ToolCall, ToolResult
from services.runtime.domain.tools import cut_result

Decision = Literal["approve", "deny", "expired"]
_NUL: Final = b"\\u0000"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action that a turn is about to wait for. ``step`` is that of the answer that asked for the call."""

    id: str
    kind: ActionKind
    step: int
    call: ToolCall

    def required(self, expires_at: datetime) -> RequiredAction:
        call = RequestedToolCall(id=self.call.id, name=self.call.name, arguments=self.call.arguments)
        return RequiredAction.model_validate(
            {"action_id": self.id, "kind": self.kind, "tool_call": call, "expires_at": expires_at}
        )


@dataclass(frozen=True, slots=True)
class LockedAction:
    """An action under its session's lock. ``answer_hash`` is that of the answer that resolved it."""

    id: str
    kind: ActionKind
    step: int
    call_id: str
    tool: str
    state: Literal["open", "resolved", "closed"]
    decision: Decision | None
    answer_hash: str | None
    has_expired: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to an action. ``content`` is the reason of a denial, or the tool's output or error."""

    kind: ActionKind
    decision: Decision | None = None
    content: str | None = None
    is_error: bool = False

    @property
    def hash(self) -> str:
        return _hash([self.kind, self.decision, self.content, self.is_error])

    def result(self, action: LockedAction) -> ToolResult | None:
        """The call's result; None for an approval, after which the call is made."""
        if self.decision == "approve":
            return None
        if self.decision == "deny":
            reason = f" Reason: {self.content}" if self.content else ""
            return _failed(action, f"The call was not made: a person denied it.{reason}")
        if self.is_error:
            return _failed(action, cut_result(self.content or "The tool failed."))
        return ToolResult(action.call_id, action.tool, cut_result(self.content or ""))


EXPIRED: Final[dict[ActionKind, str]] = {
    "approval": "The call was not made: nobody allowed or denied it in time.",
    "tool_result": "There is no result: nobody gave it in time.",
}


def expired_result(action: LockedAction) -> ToolResult:
    return _failed(action, EXPIRED[action.kind])


def answer_of(
    kind: ActionKind, *, decision: Literal["approve", "deny"] | None, reason: str | None, output: Any, error: str | None
) -> Answer:
    """The answer to an action of that kind. Raises ValidationFailed for one of the other kind."""
    if kind == "approval":
        if decision is None:
            raise _wrong_kind("decision", "this action is an approval: it takes a decision, approve or deny")
        return Answer(kind, decision, reason if decision == "deny" else None)
    if decision is not None:
        raise _wrong_kind("decision", "this action is a tool's result: it takes an output or an error")
    if error is not None:
        return Answer(kind, content=error, is_error=True)
    return Answer(kind, content=output if isinstance(output, str) else write_json(output).decode())


def require_open(action: LockedAction, turn_status: str) -> None:
    """Raises Conflict for an action that cannot be answered any more."""
    if action.state == "resolved" and action.decision != "expired":
        raise Conflict("the action has been answered otherwise already")
    if action.state == "closed":
        raise Conflict(f"the turn is {turn_status} already")
    if action.state == "resolved" or action.has_expired:
        raise Conflict("the action has expired")


def call_hash(call: ToolCall) -> str:
    """Identifies name and arguments of a call: what was shown is what runs."""
    return _hash([call.id, call.name, call.arguments])


def _hash(value: Any) -> str:
    # As it is read back: PostgreSQL's text has no NUL.
    return sha256(write_json(value, sort_keys=True).replace(_NUL, _REPLACEMENT)).hexdigest()


def _failed(action: LockedAction, reason: str) -> ToolResult:
    return ToolResult(action.call_id, action.tool, reason, "failed")


def _wrong_kind(field: str, message: str) -> ValidationFailed:
    return ValidationFailed(message, details=[ErrorDetail(loc=[field], type="wrong_kind", message=message)])


class ActionWriter(Protocol):
    """Resolves actions within a transaction that has locked their session."""

    async def action(self, turn_id: str, action_id: str) -> LockedAction | None: ...

    async def expired(self, turn_id: str) -> Sequence[LockedAction]:
        """The open ones whose time is over."""

    async def resolve(
        self, action: LockedAction, answer: Answer | None, result: ToolResult | None, *, by: str, events: int
    ) -> bool:
        """Resolves an open action and records the call's result; no answer is an expiry.

        The turn takes numbers for ``events`` events. Returns whether it goes on: no other action is open.
        """

    async def turn(self, turn_id: str) -> Turn:
        """The turn as callers see it."""


OpenActions = Callable[[Transaction], ActionWriter]
