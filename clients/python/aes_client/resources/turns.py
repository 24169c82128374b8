"""Turns: streams, replies and required actions."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aes_client import operations
from aes_client.api_errors import ConflictError
from aes_client.errors import ActionRequired
from aes_client.flows import Deadline, Emit, Emitting, Flow
from aes_client.models import (
    TURN_EVENTS,
    ExecuteReply,
    OpenAction,
    OutputTextDelta,
    RequiredAction,
    Turn,
    TurnActionRequired,
    TurnCancelled,
    TurnFailed,
)
from aes_client.refusals import error_of
from aes_client.requests import Request, nothing, one, path_of
from aes_client.resource import R, iteration, operation
from aes_client.sse import ServerEvent
from aes_client.streams import Source, Taking, follow
from aes_client.tools import Answers, Approval, Tools

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client.models import ResolveActionBody

_log = logging.getLogger("aes_client")
_ENDS = frozenset({"turn.completed", "turn.failed", "turn.cancelled"})
_ENDED = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True)
class StreamedEvent:
    """An event of a turn's stream.

    ``data`` is an instance of the model for ``type`` in ``aes_client.models``, or a dictionary if this version of the
    client doesn't know the type. To resume after this event, pass its ``id`` to ``stream(after=…)``.
    """

    id: str
    type: str
    data: Any

    @property
    def text(self) -> str:
        """The text of an ``output_text.delta`` event, or an empty string for other events."""
        return self.data.text if isinstance(self.data, OutputTextDelta) else ""

    @property
    def is_last(self) -> bool:
        return self.type in _ENDS

    def reply(self) -> ExecuteReply:
        """Returns the reply, if this is the turn's last event. Raises the error of a failed or cancelled turn."""
        if isinstance(self.data, ExecuteReply):
            return self.data
        if isinstance(self.data, TurnFailed):
            raise error_of(self.data.error)
        if isinstance(self.data, TurnCancelled):
            raise ConflictError("The turn was cancelled.")
        raise ValueError(f"{self.type} isn't the last event of a turn. Call reply() on the last one.")


def reply_of(turn: Turn) -> ExecuteReply:
    """Returns a turn's reply. Raises an error if the turn failed, was cancelled, or is waiting."""
    if turn.reply is not None:
        return turn.reply
    if turn.error is not None:
        raise error_of(turn.error)
    if turn.status == "waiting":
        raise ActionRequired(turn.session_id, turn.turn_id, turn.required_actions)
    raise ConflictError(f"The turn has no reply. Its status is {turn.status!r}.")


class TurnHandle(operations.Turns[R]):
    """The operations of one turn."""

    def __repr__(self) -> str:
        return f"<turn {self.turn_id} of session {self.session_id}>"

    @operation
    def resolve(
        self, action: RequiredAction | str, *, idempotency_key: str | None = None, **answer: Unpack[ResolveActionBody]
    ) -> Request[Turn]:
        """Resolves an action: ``decision="approve"``, ``decision="deny"`` with a ``reason``, ``output=…`` or
        ``error=…``.

        The turn resumes when all of its actions are resolved. Raises ``ConflictError`` if the action already has a
        different answer or is no longer open.
        """
        return self._resolution(action, answer).with_key(idempotency_key)

    @operation
    def wait(self, *, timeout: float | None = None, tools: Tools = (), approve: Approval | None = None) -> Flow[Turn]:
        """Waits until the turn ends, or needs an action that ``tools`` and ``approve`` can't resolve.

        Raises ``TimeLimitReached`` after ``timeout`` seconds.
        """
        return self._waited(self._answers(tools, approve), Deadline(timeout))

    @operation
    def reply(
        self, *, timeout: float | None = None, tools: Tools = (), approve: Approval | None = None
    ) -> Flow[ExecuteReply]:
        """Waits like ``wait``, and returns the reply.

        Raises the error of a failed or cancelled turn, and ``ActionRequired`` if the turn needs an action that
        ``tools`` and ``approve`` can't resolve.
        """
        return reply_of((yield from self._waited(self._answers(tools, approve), Deadline(timeout))))

    @iteration
    def stream(
        self,
        *,
        after: str = "",
        tools: Tools = (),
        approve: Approval | None = None,
        timeout: float | None = None,
    ) -> Emitting[StreamedEvent]:
        """Yields the turn's events: all of them, or those after the event with the ID ``after``.

        Resumes after a lost connection without losing or repeating an event.
        """
        source = Source(self._events(), last_id=after)
        take = taking(self._answers(tools, approve), lambda _: self)
        yield from follow(source, take, self._runner.policy, Deadline(timeout))

    def _events(self) -> Request[None]:
        path = "/runtime/{session_id}/turns/{turn_id}/events/"
        return Request("GET", path_of(path, self.session_id, self.turn_id), nothing)

    def _resolution(self, action: RequiredAction | str, answer: ResolveActionBody) -> Request[Turn]:
        action_id = action if isinstance(action, str) else action.action_id
        template = "/runtime/{session_id}/turns/{turn_id}/actions/{action_id}/"
        path = path_of(template, self.session_id, self.turn_id, action_id)
        return Request("POST", path, one(Turn), body=dict(answer))

    def _answers(self, tools: Tools, approve: Approval | None) -> Answers:
        return Answers.by(tools, approve, awaits=self._runner.awaits)

    def _answered(self, actions: Sequence[RequiredAction], answers: Answers) -> Flow[list[RequiredAction]]:
        """Resolves the actions that ``answers`` can resolve, each once. Returns the remaining actions."""
        left = []
        for action in actions:
            if action.action_id in answers.given:
                continue
            answer = yield from answers.to(action)
            if answer is None:
                left.append(action)
                continue
            answers.given.add(action.action_id)
            try:
                yield from self._send(self._resolution(action, answer))
            except ConflictError as problem:
                # Someone else was faster, or the action expired. The turn continues.
                _log.info("Action %s was closed before it could be resolved: %s", action.action_id, problem)
        return left

    def _answered_if_open(self, required: TurnActionRequired, answers: Answers) -> Flow[None]:
        """Resolves a streamed action if it's still open, so that a replayed event doesn't run its tool again."""
        turn = yield from self._send(TurnHandle.get.request(self))
        is_this = [each for each in turn.required_actions if each.action_id == required.action.action_id]
        yield from self._answered(is_this, answers)

    def _waited(self, answers: Answers, deadline: Deadline) -> Flow[Turn]:
        source = Source(self._events())
        while True:
            turn = yield from self._send(TurnHandle.get.request(self))
            if turn.status in _ENDED:
                return turn
            if turn.status == "waiting":
                left = yield from self._answered(turn.required_actions, answers)
                if left:
                    return turn.model_copy(update={"required_actions": left})
            deadline.check("The turn", session_id=self.session_id, turn_id=self.turn_id)
            yield from follow(source, _until_something_to_do, self._runner.policy, deadline)


class Actions(operations.Actions[R]):
    """The operations of ``client.actions``."""

    @operation
    def resolve(
        self, action: OpenAction, *, idempotency_key: str | None = None, **answer: Unpack[ResolveActionBody]
    ) -> Request[Turn]:
        """Resolves an action like ``TurnHandle.resolve``. Returns the action's turn."""
        turn = TurnHandle(self._runner, action.session_id, action.turn_id)
        return turn._resolution(action.action_id, answer).with_key(idempotency_key)


def taking(answers: Answers, turn_of: Callable[[str], TurnHandle[Any]]) -> Taking:
    """Returns a handler that emits a turn's events and resolves the actions that the events require."""

    def take(event: ServerEvent) -> Generator[Any, Any, bool]:
        shown = _streamed(event)
        yield Emit(shown)
        if isinstance(shown.data, TurnActionRequired) and (answers.tools or answers.approve):
            yield from turn_of(shown.data.turn_id)._answered_if_open(shown.data, answers)
        return shown.is_last

    return take


def _streamed(event: ServerEvent) -> StreamedEvent:
    model = TURN_EVENTS.get(event.name)
    data = json.loads(event.data) if model is None else model.model_validate_json(event.data)
    return StreamedEvent(event.id, event.name, data)


def _until_something_to_do(event: ServerEvent) -> Generator[Any, Any, bool]:
    yield from ()
    return event.name in _ENDS or event.name == "turn.action_required"
