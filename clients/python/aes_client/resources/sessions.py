"""Sessions: conversations with agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Union

from aes_client import operations
from aes_client.errors import ActionRequired
from aes_client.flows import Deadline, Emitting, Flow, Pause
from aes_client.models import ArtifactState, ExecuteReply, Session, SessionCreatedReply, SessionStatus, TurnAccepted
from aes_client.requests import Request, given, one, path_of
from aes_client.resource import R, Resource, iteration, operation
from aes_client.resources.turns import StreamedEvent, TurnHandle, taking
from aes_client.streams import Source, follow
from aes_client.tools import Answers, Approval, Tools

if TYPE_CHECKING:
    import httpx

    from aes_client.models import (
        AgentConfiguration,
        FileBlock,
        GivenMessage,
        ImageBlock,
        ImageUrlBlock,
        TextBlock,
        TurnOptions,
    )

# Shorter than the request timeout of most proxies. The client polls turns that take longer.
_WAIT_SECONDS = 50.0
_GRACE_SECONDS = 30.0
_LOOK_SECONDS = 0.5
Content = Union[str, "list[TextBlock | ImageUrlBlock | FileBlock | ImageBlock]"]
"""A message: text, or blocks of text, images and files."""


class Artifacts(operations.Artifacts[R]):
    """The operations of ``session.artifacts``."""

    @operation
    def wait(self, artifact_id: str, *, timeout: float | None = 300) -> Flow[ArtifactState]:
        """Waits until the artifact is ``ready`` or ``failed``, and returns its processing status."""
        deadline = Deadline(timeout)
        while True:
            state = yield from self._send(Artifacts.status.request(self, artifact_id))
            if state.processing_status != "pending":
                return state
            deadline.check("Processing the artifact")
            yield Pause(_LOOK_SECONDS)


class SessionHandle(operations.Sessions[R]):
    """The operations of one session. ``tools`` are functions that implement the agent's ``client_tools``."""

    def __init__(self, runner: R, session_id: str, tools: Tools = ()) -> None:
        super().__init__(runner, session_id)
        self.artifacts: Artifacts[R] = Artifacts(runner, session_id)
        self._tools = tuple(tools)

    def __repr__(self) -> str:
        return f"<session {self.session_id}>"

    def turn(self, turn_id: str) -> TurnHandle[R]:
        """Returns a handle for a turn without sending a request."""
        return TurnHandle(self._runner, self.session_id, turn_id)

    @operation
    def fork(
        self,
        *,
        up_to_turn_id: str | None = None,
        before_turn_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[SessionHandle[R]]:
        """Creates a session with a copy of this session's history, optionally only up to or before a given turn."""
        body = given(up_to_turn_id=up_to_turn_id, before_turn_id=before_turn_id)
        path = path_of("/sessions/{session_id}/fork/", self.session_id)
        request = Request("POST", path, one(SessionCreatedReply), body=body).with_key(idempotency_key)
        made = yield from self._send(request)
        return SessionHandle(self._runner, made.session_id, self._tools)

    @operation
    def execute(
        self,
        content: Content,
        *,
        options: TurnOptions | None = None,
        tools: Tools | None = None,
        approve: Approval | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Flow[ExecuteReply]:
        """Executes a message, waits for the turn, and returns the reply.

        ``tools`` are functions that the agent can call in this turn, instead of its ``client_tools``. ``approve``
        decides whether calls that need approval can run.

        Raises an ``ApiError``, such as ``ModelError``, if the turn fails. Raises ``ActionRequired`` if the turn waits
        for an action that ``tools`` and ``approve`` can't resolve, or if an earlier turn waits for an action. Raises
        ``TimeLimitReached`` after ``timeout`` seconds. After the last two errors, the turn continues.
        """
        answers, deadline = self._answers(tools, approve), Deadline(timeout)
        request = self._message(content, self._options(options, tools), correlation_id).with_key(idempotency_key)
        return self._executed(request, answers, deadline)

    @operation
    def start(
        self,
        content: Content,
        *,
        options: TurnOptions | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[TurnHandle[R]]:
        """Starts a turn in the background. Returns a handle once the turn is durably queued."""
        request = self._message(content, options, correlation_id).with_key(idempotency_key)
        accepted = yield from self._send(_preferring(request, "respond-async"))
        return self.turn(accepted.turn_id)

    @iteration
    def stream(
        self,
        content: Content,
        *,
        options: TurnOptions | None = None,
        tools: Tools | None = None,
        approve: Approval | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Emitting[StreamedEvent]:
        """Executes a message and yields the turn's events, including the last one.

        Resumes after a lost connection without losing or repeating an event. ``tools`` and ``approve`` work as in
        ``execute``. If they can't resolve an action, the stream stays open until someone else does.
        """
        request = self._message(content, self._options(options, tools), correlation_id).with_key(idempotency_key)
        source, deadline = Source(request), Deadline(timeout)
        answers = self._answers(tools, approve)
        yield from follow(source, taking(answers, self.turn), self._runner.policy, deadline)

    def _executed(
        self, request: Request[ExecuteReply | TurnAccepted], answers: Answers, deadline: Deadline
    ) -> Flow[ExecuteReply]:
        while True:
            wait = max(1, round(deadline.left(_WAIT_SECONDS)))
            answer = yield from self._send(_preferring(request, f"wait={wait}", timeout=wait + _GRACE_SECONDS))
            if isinstance(answer, ExecuteReply):
                return answer
            if answer.status == "waiting":
                left = yield from self.turn(answer.turn_id)._answered(answer.required_actions, answers)
                if left:
                    raise ActionRequired(self.session_id, answer.turn_id, left)
            elif answer.blocked_by is not None:
                raise ActionRequired(self.session_id, answer.blocked_by.turn_id, answer.blocked_by.required_actions)
            deadline.check("The turn", session_id=self.session_id, turn_id=answer.turn_id)

    def _message(
        self, content: Content, options: TurnOptions | None, correlation_id: str | None
    ) -> Request[ExecuteReply | TurnAccepted]:
        body = given(content=content, options=options, correlation_id=correlation_id)
        return Request("POST", path_of("/runtime/{session_id}/execute/", self.session_id), _reply, body=body)

    def _options(self, options: TurnOptions | None, tools: Tools | None) -> TurnOptions | None:
        if tools is None:
            return options
        return {**(options or {}), "client_tools": Answers.by(tools).definitions}

    def _answers(self, tools: Tools | None, approve: Approval | None) -> Answers:
        return Answers.by(self._tools if tools is None else tools, approve, awaits=self._runner.awaits)


class SessionRecord(SessionHandle[R]):
    """A session handle that also has the fields of ``models.Session``."""

    config_hash: str
    created_at: datetime
    status: SessionStatus
    agent_config: dict[str, Any]
    agent_id: str | None
    owner_id: str
    forked_from: str | None
    metadata: dict[str, str] | None

    def __init__(self, runner: R, record: Session) -> None:
        super().__init__(runner, record.session_id)
        vars(self).update(record)


class Sessions(Resource[R]):
    """The operations of ``client.sessions``."""

    @operation
    def create(
        self,
        *,
        agent_id: str | None = None,
        agent_key: str | None = None,
        config: AgentConfiguration | Mapping[str, Any] | None = None,
        messages: Sequence[GivenMessage | Mapping[str, Any]] | None = None,
        tools: Tools = (),
        idempotency_key: str | None = None,
    ) -> Flow[SessionHandle[R]]:
        """Creates a session with a stored agent (``agent_id`` or ``agent_key``) or an agent configuration.

        ``messages`` is a conversation to import, oldest message first. ``tools`` are functions that the agent can call.
        With ``config``, the client adds the tools to the configuration's ``client_tools``. Without ``config``, the
        stored agent or each message's options must declare them.
        """
        tools = tuple(tools)
        body: dict[str, Any] = given(agent_id=agent_id, agent_key=agent_key, messages=messages, **(config or {}))
        if config is not None and tools:
            body["client_tools"] = [*body.get("client_tools", ()), *Answers.by(tools).definitions]
        request = Request("POST", "/sessions/", one(SessionCreatedReply), body=body).with_key(idempotency_key)
        made = yield from self._send(request)
        return SessionHandle(self._runner, made.session_id, tools)

    @operation
    def get(self, session_id: str) -> Flow[SessionRecord[R]]:
        """Returns a session with its data. To get a handle without sending a request, call ``client.session``."""
        handle = SessionHandle(self._runner, session_id)
        return SessionRecord(self._runner, (yield from self._send(SessionHandle.get.request(handle))))

    @iteration
    def list(self) -> Emitting[SessionRecord[R]]:
        """Yields sessions, newest first."""
        shown = partial(SessionRecord, self._runner)
        yield from self._pages("/sessions/", "sessions", Session, {}, shown)

    @operation
    def delete(self, session_id: str, *, idempotency_key: str | None = None) -> Request[None]:
        handle = SessionHandle(self._runner, session_id)
        return SessionHandle.delete.request(handle, idempotency_key=idempotency_key)


def _preferring(
    request: Request[ExecuteReply | TurnAccepted], preference: str, timeout: float | None = None
) -> Request[ExecuteReply | TurnAccepted]:
    return replace(request, headers={**request.headers, "Prefer": preference}, timeout=timeout)


def _reply(response: httpx.Response) -> ExecuteReply | TurnAccepted:
    return one(ExecuteReply)(response) if response.status_code == 200 else one(TurnAccepted)(response)
