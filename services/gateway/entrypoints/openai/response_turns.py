"""Starts, answers and follows the turns of responses."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from libs.contracts.errors import Conflict, NotFound, ServiceError, ValidationFailed, error_from
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity, Scope
from libs.contracts.resources import turns
from libs.contracts.resources.messages import ContentBlock
from libs.contracts.resources.sessions import NO_AGENT, SessionBeginning
from libs.contracts.resources.turns import SESSION_MOVED_ON, ClientCalls, RequiredAction, Turn, TurnOptions, TurnRequest
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import Write
from services.gateway.domain.turn_ends import ENDED_STATUSES
from services.gateway.domain.turn_options import check_options
from services.gateway.domain.turn_progress import TurnProgress, typed_events
from services.gateway.domain.turn_stream import START, Cursor, StreamedEvent
from services.gateway.entrypoints.door.application import Door, turn_headers
from services.gateway.entrypoints.door.callers import require_scopes
from services.gateway.entrypoints.openai.conventions import created_at, refuse, renamed
from services.gateway.entrypoints.openai.input_items import (
    AgentCall,
    Answer,
    ApprovalResponse,
    FunctionCall,
    FunctionCallOutput,
    InputHistory,
    is_instruction,
    parse_history,
    resolution_of,
    role_of,
    with_question,
)
from services.gateway.entrypoints.openai.response_builder import ResponseBuilder, response_id
from services.gateway.entrypoints.openai.response_items import Json
from services.gateway.entrypoints.openai.response_request import NAMES, CreateResponse, response_head

_log = structlog.get_logger("gateway.openai")
_RESPONSE: Final = re.compile(r"resp_([^_]+)(?:_([1-9][0-9]{0,4}))?")
_UNSTORED_SECONDS: Final = 3600
"""The age at which the runtime deletes the session of an unstored response, if the gateway hasn't deleted it."""
_REMOVE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class ResponseName:
    """A parsed response ID. ``part``: the number of the response within the turn."""

    turn_id: str
    part: int = 0

    @classmethod
    def parse(cls, text: str) -> "ResponseName":
        """Raises ``NotFound`` if the text isn't a response's ID."""
        matched = _RESPONSE.fullmatch(text)
        if matched is None or not is_id(matched[1]):
            raise NotFound(f"The response {text[:100]!r} doesn't exist.")
        return cls(matched[1], int(matched[2] or 0))


def session_of(conversation: str) -> str:
    """Returns the ID of a conversation's session. Raises ``NotFound`` if the text isn't a conversation's ID."""
    session_id = conversation.removeprefix("conv_")
    if not conversation.startswith("conv_") or not is_id(session_id):
        raise NotFound(f"The conversation {conversation[:100]!r} doesn't exist.")
    return session_id


def options_of(turn: Turn) -> TurnOptions:
    return TurnOptions.model_validate(turn.options or {})


@dataclass(slots=True)
class BegunResponse:
    """A response in progress. ``builder`` and ``headers`` are set by the time the first event arrives."""

    headers: dict[str, str] = field(default_factory=dict)
    builder: ResponseBuilder | None = None
    removes_session: bool = False
    events: AsyncGenerator[StreamedEvent | None, None] = field(init=False)

    def response(self) -> Json:
        assert self.builder is not None, "no event has arrived yet"
        return self.builder.response()

    def error(self) -> ServiceError | None:
        """Returns the reason why the response has no reply, or None."""
        if self.builder is None or self.builder.status not in ("failed", "cancelled"):
            return None
        return Conflict("The response was cancelled.") if self.builder.error is None else error_from(self.builder.error)


@dataclass(frozen=True, slots=True)
class ResponseTurns:
    """Starts, resumes and follows responses for one caller."""

    door: Door
    caller: Principal
    write: Write

    @property
    def _identity(self) -> Identity:
        return self.caller.identity

    async def begin(self, body: CreateResponse, *, stream: bool) -> BegunResponse:
        """Begins a response. Answers are submitted immediately, but a new turn starts only when its events are read."""
        body.check()
        if body.previous_response_id is not None or body.conversation is not None:
            if any(isinstance(item, FunctionCall | AgentCall) or role_of(item) == "assistant" for item in body.items):
                raise refuse(
                    "input", "The conversation already has the agent's messages. Send only new input.", "invalid_value"
                )
            answers = [item for item in body.items if isinstance(item, FunctionCallOutput | ApprovalResponse)]
            if answers:
                if len(answers) < len(body.items):
                    raise refuse(
                        "input",
                        "Send tool outputs on their own. Put the new message in the next request.",
                        "invalid_value",
                    )
                return await self._answer(body, answers)
        items = with_question(body.items)
        given = parse_history(items)
        added = [item.text for item in items if is_instruction(item)]
        target = await self._find_target(body, given)
        options = self._options(body, target.model, "\n\n".join(added))
        request = TurnRequest(stream=stream, options=options, client_calls=target.client_calls, whole_history=True)
        begun = BegunResponse(removes_session=body.store is False)
        begun.events = self._executed(begun, target, given.question, request)
        return begun

    async def again(self, name: ResponseName) -> BegunResponse:
        """Returns an existing response, to follow its events again. Raises ``NotFound`` for an unknown response."""
        turn, _ = await self.snapshot(name)
        return await self._resumed(turn, name)

    async def _resumed(self, turn: Turn, name: ResponseName, *, removes_session: bool = False) -> BegunResponse:
        begun = BegunResponse(turn_headers(turn.session_id, turn.turn_id), await self._builder(turn, name))
        begun.removes_session = removes_session
        begun.events = self.door.reader.turn(self._identity, turn.session_id, turn.turn_id, START)
        return begun

    def _options(self, body: CreateResponse, model: str, added_instructions: str) -> TurnOptions:
        options = body.options(model, added_instructions)
        try:
            check_options(options, self.caller)
        except ValidationFailed as problem:
            raise renamed(problem, NAMES) from None
        return options

    async def _find_target(self, body: CreateResponse, given: InputHistory) -> "_Target":
        if body.previous_response_id is not None:
            name = ResponseName.parse(body.previous_response_id)
            turn = await self.door.turns.read(self._identity, name.turn_id)
            if turn.status == "waiting":
                raise _no_output(turn.required_actions[0])
            previous = response_head(options_of(turn), 0)["model"]
            model = await self._require_same_agent(body.model, previous, turn.session_id)
            return _Target(turn.session_id, model, turn)
        if body.conversation_id is not None:
            session_id = session_of(body.conversation_id)
            for action in await self.door.sessions.open_actions(self._identity, session_id):
                raise _no_output(action)
            model = await self._require_same_agent(body.model, "", session_id)
            return _Target(session_id, model)
        if body.model is None:
            raise refuse("model", "The request needs a model. Set it to an agent's key.", "missing_required_parameter")
        begins = await self.door.agents.beginning_of(self._identity, body.model)
        kept: Json = {} if body.store is not False else {"listed": False, "expires_after": _UNSTORED_SECONDS}
        begins = begins.model_copy(update={**kept, "messages": given.history})
        # A client that stores the conversation itself can't resume a waiting turn.
        keeps = body.store is False or given.answered or any(message.tool_calls for message in given.history)
        calls = ClientCalls(answered=given.answered) if keeps else None
        return _Target(begins, body.model, client_calls=calls)

    async def _require_same_agent(self, wanted: str | None, known: str, session_id: str) -> str:
        """Returns the model's name. A session without an agent adopts the first agent that is specified.

        Raises ``ValidationFailed`` if the session belongs to another agent.
        """
        if wanted is not None and wanted == known:
            return wanted
        session = await self.door.sessions.read(self._identity, session_id)
        own = known or str(session.agent_config.get("name", ""))
        if wanted is None:
            if session.config_hash == NO_AGENT:
                raise refuse(
                    "model",
                    "The first response in a conversation needs a model. Set it to an agent's key.",
                    "missing_required_parameter",
                )
            return own
        agent = await self.door.agents.beginning_of(self._identity, wanted)
        if session.config_hash == NO_AGENT:
            try:
                await self.door.sessions.change(self.write.part("agent"), session_id, agent=agent)
            except Conflict:
                # A concurrent first response has set the agent.
                session = await self.door.sessions.read(self._identity, session_id)
            else:
                return wanted
        if agent.agent_id != session.agent_id or (agent.agent_id is None and agent.config_hash != session.config_hash):
            raise refuse(
                "model",
                f"This conversation belongs to the agent {own!r}. Omit `model` to use this agent.",
                "unsupported_value",
            )
        return wanted

    async def _executed(
        self, begun: BegunResponse, target: "_Target", content: str | list[ContentBlock], request: TurnRequest
    ) -> AsyncGenerator[StreamedEvent | None, None]:
        """Starts the turn and yields its events.

        If the response isn't stored, or the previous response has a successor, the turn runs in a fork of the session.
        """
        previous, session, placed = target.previous, target.session, request
        if previous is not None and begun.removes_session:
            session = await self._fork(begun, previous)
        elif previous is not None:
            placed = request.model_copy(update={"position": previous.position + 1})
        try:
            async with aclosing(self._submitted(begun, "turn", session, content, placed)) as events:
                async for event in events:
                    yield event
            return
        except Conflict as problem:
            if previous is None or not _has_moved_on(problem):
                raise
        fork = await self._fork(begun, previous)
        try:
            async with aclosing(self._submitted(begun, "turn.fork", fork, content, request)) as events:
                async for event in events:
                    yield event
        except ServiceError:
            if begun.builder is None and self.write.request is None:
                # Without an idempotency key, each attempt has its own fork. With a key, a retry uses the same fork
                # again.
                await self._delete(fork)
            raise

    async def _fork(self, begun: BegunResponse, previous: Turn) -> str:
        forked = await self.door.sessions.fork(
            self.write.part("fork"),
            previous.session_id,
            up_to_turn_id=previous.turn_id,
            expires_after=_UNSTORED_SECONDS if begun.removes_session else None,
        )
        return forked.session_id

    async def _submitted(
        self,
        begun: BegunResponse,
        part: str,
        session: str | SessionBeginning,
        content: str | list[ContentBlock],
        request: TurnRequest,
    ) -> AsyncGenerator[StreamedEvent | None, None]:
        async with self.door.turns.submit(self.write.part(part), session, content, request) as turn:
            head = response_head(request.options, created_at(turn.command_id))
            begun.builder = ResponseBuilder(turn.command_id, head)
            begun.headers.update(turn_headers(turn.session_id, turn.command_id))
            try:
                async with aclosing(turn.follow()) as events:
                    async for event in events:
                        yield event
            except ValidationFailed as problem:
                raise renamed(problem, NAMES) from None

    async def _answer(self, body: CreateResponse, answers: Sequence[Answer]) -> BegunResponse:
        """Resolves the actions of a response, and returns the turn's next response."""
        turn, part = await self._waiting(body)
        builder = await self._up_to_now(turn, ResponseBuilder(turn.turn_id, {}, part))
        self._require_same_options(body, turn)
        answered = _matched(builder.asked, answers)
        approves = any(isinstance(answer, ApprovalResponse) for _, answer in answered)
        require_scopes(self.caller, [Scope.RUNTIME_APPROVE] if approves else [])
        for action_id, answer in answered:
            write = self.write.part(f"action:{action_id}")
            await self.door.turns.answer(write, turn.session_id, turn.turn_id, action_id, resolution_of(answer))
        name = ResponseName(turn.turn_id, part + 1)
        return await self._resumed(turn, name, removes_session=body.store is False)

    async def _waiting(self, body: CreateResponse) -> tuple[Turn, int]:
        """Returns the turn to answer, and the number of the response that requested the answers."""
        if body.previous_response_id is not None:
            name = ResponseName.parse(body.previous_response_id)
            return await self.door.turns.read(self._identity, name.turn_id), name.part
        if body.conversation_id is None:
            raise refuse(
                "previous_response_id",
                "Tool outputs and approval responses need a previous_response_id. Set it to the ID of the response that"
                " requested them.",
                "missing",
            )
        actions = await self.door.sessions.open_actions(self._identity, session_of(body.conversation_id))
        if not actions:
            raise refuse("input", "This conversation isn't waiting for an answer.", "invalid_value")
        turn = await self.door.turns.read(self._identity, actions[0].turn_id)
        return turn, (await self._up_to_now(turn, ResponseBuilder(turn.turn_id, {}, -1))).part

    def _require_same_options(self, body: CreateResponse, turn: Turn) -> None:
        """Raises ``ValidationFailed`` for options that differ from the turn's options."""
        given, own = body.options("", "").model_dump(), options_of(turn).model_dump()
        del given["metadata"]
        if given["tool_choice"] in ("auto", "none"):
            # After a call, the model may choose freely.
            del given["tool_choice"]
        changed = [f"options.{name}" for name, value in given.items() if value is not None and value != own[name]]
        kept = response_head(options_of(turn), 0)
        for name in ("metadata", "user", "safety_identifier", "prompt_cache_key"):
            if (value := getattr(body, name)) is not None and value != kept[name]:
                changed.append(name)
        if changed:
            problem = "Requests that answer calls can't change this field. Omit it."
            raise renamed(refuse(changed[0], problem, "unsupported_value"), NAMES)

    async def follow(
        self, begun: BegunResponse, has_left: Callable[[], Awaitable[bool]] | None = None
    ) -> AsyncGenerator[list[Json] | None, None]:
        """Yields the response's events in batches, and ``None`` as a keep-alive.

        The session of an unstored response is deleted before the last event, or when the client ``has_left``, which
        cancels the turn.
        """
        try:
            async with aclosing(typed_events(begun.events)) as events:
                async for progress in events:
                    builder = begun.builder
                    if progress is None or builder is None:
                        yield None
                        continue
                    made = builder.take(progress)
                    if isinstance(progress.event, turns.TurnActionRequired):
                        made += builder.end_if_waiting(await self.door.turns.read(self._identity, builder.turn_id))
                    if builder.has_ended and begun.removes_session:
                        await self._remove(begun)
                    if made:
                        yield made
                    if builder.has_ended:
                        return
        finally:
            if begun.removes_session and has_left is not None and await has_left():
                await self._remove(begun)

    async def _remove(self, begun: BegunResponse) -> None:
        """Deletes the response's session, at most once. If that fails, the session expires later."""
        session_id = begun.headers.get("X-Session-ID")
        if session_id is None:
            return
        begun.removes_session = False
        await self._delete(session_id)

    async def _delete(self, session_id: str) -> None:
        try:
            async with asyncio.timeout(_REMOVE_SECONDS):
                await self.door.sessions.delete(self.write.part("remove"), session_id)
        except (ServiceError, TimeoutError) as problem:
            _log.warning("response.not_removed", session_id=session_id, problem=str(problem))

    async def snapshot(self, name: ResponseName) -> tuple[Turn, ResponseBuilder]:
        """Returns the response's turn and current state. Raises ``NotFound`` if the response doesn't exist."""
        turn = await self.door.turns.read(self._identity, name.turn_id)
        builder = await self._up_to_now(turn, await self._builder(turn, name))
        builder.end_if_waiting(turn)
        if turn.status in ENDED_STATUSES and not builder.has_ended and builder.part <= name.part:
            for progress in _remembered(turn):
                builder.take(progress)
        if name.part > builder.part:
            raise NotFound("No response has this ID.")
        return turn, builder

    async def _up_to_now(self, turn: Turn, builder: ResponseBuilder) -> ResponseBuilder:
        for progress in await self.door.reader.turn_so_far(self._identity, turn.session_id, turn.turn_id):
            builder.take(progress)
        return builder

    async def _builder(self, turn: Turn, name: ResponseName) -> ResponseBuilder:
        head = response_head(options_of(turn), created_at(turn.turn_id))
        if not head["model"]:
            # The turn was started over another protocol.
            session = await self.door.sessions.read(self._identity, turn.session_id)
            head["model"] = str(session.agent_config.get("name", ""))
        if name.part:
            head["previous_response_id"] = response_id(turn.turn_id, name.part - 1)
        return ResponseBuilder(turn.turn_id, head, name.part)


@dataclass(frozen=True, slots=True)
class _Target:
    """The session that a response's turn runs in. The turn creates it if it doesn't exist.

    ``previous`` is the previous response's turn.
    """

    session: str | SessionBeginning
    model: str
    previous: Turn | None = None
    client_calls: ClientCalls | None = None


def _matched(asked: dict[str, RequiredAction], answers: Sequence[Answer]) -> list[tuple[str, Answer]]:
    """Pairs the answers with action IDs. Raises ``ValidationFailed`` unless all actions are answered."""
    by_call = {action.tool_call.id: action_id for action_id, action in asked.items() if action.kind == "tool_result"}
    by_request = {f"mcpr_{action_id}": action_id for action_id, action in asked.items() if action.kind == "approval"}
    found: dict[str, Answer] = {}
    for answer in answers:
        if isinstance(answer, FunctionCallOutput):
            action_id, given = by_call.get(answer.call_id), f"function call {answer.call_id}"
        else:
            action_id, given = by_request.get(answer.approval_request_id), answer.approval_request_id
        if action_id is None:
            raise refuse("input", f"No call found for {given[:200]}.", "invalid_value")
        found[action_id] = answer
    for action_id, action in asked.items():
        if action_id not in found:
            raise _no_output(action)
    return list(found.items())


def _no_output(action: RequiredAction) -> ValidationFailed:
    if action.kind == "approval":
        return refuse("input", f"No approval response found for mcpr_{action.action_id}.", "invalid_value")
    return refuse("input", f"No tool output found for function call {action.tool_call.id}.", "invalid_value")


def _has_moved_on(problem: ServiceError) -> bool:
    return any(detail.type == SESSION_MOVED_ON for detail in problem.details or ())


def _remembered(turn: Turn) -> list[TurnProgress]:
    """Reconstructs a turn's last events from its state, because the recorded events no longer exist."""
    ids: dict[str, Any] = {"session_id": turn.session_id, "turn_id": turn.turn_id}
    if turn.reply is None:
        if turn.error is None:
            return [TurnProgress(Cursor(2), turns.TurnCancelled(**ids, reason=""))]
        return [TurnProgress(Cursor(2), turns.TurnFailed(**ids, error=turn.error))]
    reply = turn.reply
    calls: list[TurnProgress] = []
    for number, call in enumerate(reply.response.tool_calls, start=1):
        made = {**ids, "step": 1, "call_id": call.id, "name": call.name}
        begun = turns.ToolCallStarted(**made, arguments=call.arguments)
        ended = (
            turns.ToolCallCompleted(**made, output=call.output or "")
            if call.status == "completed"
            else turns.ToolCallFailed(**made, reason=call.output or "")
        )
        calls += [TurnProgress(Cursor(2 * number), begun), TurnProgress(Cursor(2 * number + 1), ended)]
    last = Cursor(2 * len(reply.response.tool_calls) + 2)
    text = turns.OutputTextDelta(**ids, attempt=1, step=1, offset=0, text=reply.response.content)
    completed = turns.TurnCompleted.model_validate(reply.model_dump())
    return [*calls, TurnProgress(last, text), TurnProgress(last._replace(sequence=last.sequence + 1), completed)]
