"""Actions: the approvals and tool results that waiting turns need."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from libs.contracts.messages import Command
from libs.contracts.models import StrictModel, WireModel
from libs.contracts.pages import ListPage
from libs.contracts.resources.turns import RequiredAction, Turn, TurnEvent
from libs.contracts.timestamps import Timestamp


class OpenAction(RequiredAction):
    """An open action, with the turn that is waiting for it."""

    session_id: str
    turn_id: str
    created_at: Timestamp


class ActionPage(WireModel, ListPage):
    actions: list[OpenAction]


class ResolveActionBody(StrictModel):
    """The body of ``POST …/actions/{action_id}/``: exactly one of ``decision``, ``output`` and ``error``.

    ``decision`` resolves an approval; a denial can include a ``reason``. ``output`` and ``error`` are the result of a
    tool call that you ran. ``output`` can be any JSON value, including ``null``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "approval": {"decision": "approve"},
        "denial": {"decision": "deny", "reason": "Refunds above 100 need a second opinion."},
        "tool result": {"output": {"seat": "12A", "price": 49.5}},
        "tool error": {"error": "The printer is out of paper."},
    }

    decision: Literal["approve", "deny"] | None = None
    reason: str | None = Field(default=None, max_length=10_000)
    output: Any = None
    error: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _is_one_answer(self) -> "ResolveActionBody":
        given = [name for name in ("decision", "output", "error") if getattr(self, name) is not None]
        if len(given) > 1 or not (given or "output" in self.model_fields_set):
            raise ValueError("set exactly one of `decision`, `output` and `error`")
        if self.reason is not None and self.decision != "deny":
            raise ValueError("only a denial can have a reason")
        return self


class ResolveActionAccepted(TurnEvent, type="aes.runtime.resolve_action.accepted.v1"):
    """An answer to an action was accepted. Sending the same answer again publishes this event again.

    ``turn`` is the turn's resulting state.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"resumed": {"turn": Turn.EXAMPLES["queued"]}}

    turn: Turn


class ResolveAction(
    Command, type="aes.runtime.resolve_action.v1", outcomes=(ResolveActionAccepted,), subject="turn_id"
):
    """Resolve an open action of a waiting turn.

    Set ``decision`` for an approval, and ``output`` or ``error`` for a tool call. If neither ``decision`` nor ``error``
    is set, the result is ``output``, even if it's ``null``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        name: {"action_id": "01980f52-4c50-7f58-a061-5e6f7a8b0050", **body}
        for name, body in ResolveActionBody.EXAMPLES.items()
    }

    session_id: str
    turn_id: str
    action_id: str
    decision: Literal["approve", "deny"] | None = None
    reason: str | None = None
    output: Any = None
    error: str | None = None
