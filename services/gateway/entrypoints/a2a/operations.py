"""Implements A2A's operations."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Final

from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict

from libs.contracts.errors import Conflict, NotFound, ServiceError, ValidationFailed
from libs.contracts.resources.agents import Agent
from libs.contracts.resources.turns import Turn, TurnQueued, TurnRequest, TurnStatus
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import Write
from services.gateway.domain.turn_ends import ENDED_STATUSES
from services.gateway.domain.turn_stream import START, StreamedEvent
from services.gateway.entrypoints.a2a.messages import answers_of, check_configuration, content_of
from services.gateway.entrypoints.a2a.tasks import STATES, TaskUpdates, begun_task, task_of
from services.gateway.entrypoints.door.answers import MAX_WAIT
from services.gateway.entrypoints.door.application import Door, turn_headers
from services.gateway.entrypoints.door.callers import require_scopes
from services.gateway.entrypoints.door.streams import resumed
from services.gateway.entrypoints.door.writes import repeatable
from services.gateway.use_cases.turns import scope_to_answer

_STATUSES: Final = {state: status for status, state in STATES.items()}
_PAGE: Final = 50
_LARGEST_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """A2A's operations on one agent, for one caller.

    ``base``: the gateway's URL. ``headers``: the response's headers, which the operations set.
    """

    door: Door
    caller: Principal
    agent: Agent
    write: Write
    base: str
    headers: dict[str, str]

    async def send(self, params: SendMessageRequest) -> SendMessageResponse:
        """Sends a message and returns its task, even if the turn fails."""
        check_configuration(params.configuration)
        message = params.message
        if message.task_id:
            turn, _ = await self._answered(message)
            if not params.configuration.return_immediately:
                turn = await self._settled(turn)
            return self._sent(params, turn)
        content = content_of(message)
        session_id = await self._session(message)
        write = self._repeatable(message)
        async with self.door.turns.submit(write, session_id, content, TurnRequest()) as submitted:
            problem = None
            try:
                if params.configuration.return_immediately:
                    await submitted.accepted()
                else:
                    await submitted.finish(MAX_WAIT)
            except ServiceError as failure:
                problem = failure
            return self._sent(params, await self._read(submitted.command_id, problem))

    async def stream(self, params: SendMessageRequest) -> AsyncGenerator[StreamResponse | None, None]:
        """Sends a message. Yields its task, then updates until the task ends or needs an answer."""
        check_configuration(params.configuration)
        message = params.message
        if message.task_id:
            turn, answered = await self._answered(message)
            yield StreamResponse(task=self._task(turn, self._history(params, turn.session_id, turn.turn_id)))
            async for update in self._updates(turn.session_id, turn.turn_id, self._follow(turn), answered=answered):
                yield update
            return
        content = content_of(message)
        session_id = await self._session(message)
        write = self._repeatable(message)
        async with (
            self.door.turns.submit(write, session_id, content, TurnRequest(stream=True)) as submitted,
            aclosing(submitted.follow()) as events,
        ):
            first = await anext(events, None)
            turn_id = submitted.command_id
            self.headers.update(turn_headers(session_id, turn_id))
            status: TurnStatus = "queued" if first is not None and first.type == TurnQueued.TYPE else "running"
            yield StreamResponse(
                task=begun_task(session_id, turn_id, status, self._history(params, session_id, turn_id))
            )
            async for update in self._updates(session_id, turn_id, resumed(first, events)):
                yield update

    async def get(self, params: GetTaskRequest) -> Task:
        return self._task(await self._turn(params.id))

    async def list_tasks(self, params: ListTasksRequest) -> ListTasksResponse:
        """Lists the agent's tasks, most recently changed first."""
        size = params.page_size if params.HasField("page_size") else _PAGE
        if not 1 <= size <= _LARGEST_PAGE:
            raise InvalidParamsError(f"pageSize must be from 1 to {_LARGEST_PAGE}.")
        if params.status and params.status not in _STATUSES:
            return ListTasksResponse(page_size=size)
        since = params.status_timestamp_after
        try:
            page = await self.door.turns.page(
                self.caller.identity,
                agent_id=self.agent.id,
                session_id=params.context_id or None,
                status=_STATUSES.get(params.status),
                changed_after=since.ToJsonString() if params.HasField("status_timestamp_after") else None,
                after=params.page_token or None,
                limit=size,
            )
        except ValidationFailed:
            raise InvalidParamsError("Invalid pageToken. Use the nextPageToken of an earlier response.") from None
        tasks = [self._task(turn, with_artifacts=params.include_artifacts) for turn in page.turns]
        return ListTasksResponse(tasks=tasks, next_page_token=page.next or "", page_size=size, total_size=page.total)

    async def cancel(self, params: CancelTaskRequest) -> Task:
        turn = await self._turn(params.id)
        if turn.status in ENDED_STATUSES:
            raise TaskNotCancelableError(f"The task is already {turn.status}.")
        try:
            await self.door.turns.cancel(self.write, turn.session_id, turn.turn_id)
        except Conflict as problem:
            raise TaskNotCancelableError(problem.message) from None
        return self._task(await self._turn(params.id))

    async def subscribe(self, params: SubscribeToTaskRequest) -> AsyncGenerator[StreamResponse | None, None]:
        """Yields a task, then all of its updates from the beginning."""
        turn = await self._turn(params.id)
        if turn.status in ENDED_STATUSES:
            raise UnsupportedOperationError(f"The task is already {turn.status}. Use GetTask to read it.")
        yield StreamResponse(task=self._task(turn))
        waits = [action.action_id for action in turn.required_actions]
        async for update in self._updates(turn.session_id, turn.turn_id, self._follow(turn), known=waits):
            yield update

    async def _turn(self, turn_id: str) -> Turn:
        """Reads a turn. Raises ``TaskNotFoundError`` if the turn doesn't exist or belongs to another agent."""
        try:
            turn = await self.door.turns.read(self.caller.identity, turn_id)
            session = await self.door.sessions.read(self.caller.identity, turn.session_id)
        except NotFound:
            raise TaskNotFoundError from None
        if session.agent_id != self.agent.id:
            raise TaskNotFoundError
        self.headers.update(turn_headers(turn.session_id, turn.turn_id))
        return turn

    async def _session(self, message: Message) -> str:
        """Returns the ID of the context's session. Without a context, creates a session, once per message ID."""
        session_id = message.context_id
        if not session_id:
            wanted = {"agent_key": self.agent.agent_key}
            opening = self._repeatable(message).part("session")
            opened = await self.door.sessions.open(opening, wanted, self.caller.identity)
            session_id = opened.session_id
        else:
            try:
                session = await self.door.sessions.read(self.caller.identity, session_id)
            except NotFound:
                session = None
            if session is None or session.agent_id != self.agent.id:
                raise InvalidParamsError(
                    "`message.contextId` doesn't match a session of this agent. Omit it to create a session."
                )
        self.headers.update(turn_headers(session_id))
        return session_id

    async def _answered(self, message: Message) -> tuple[Turn, Collection[str]]:
        """Submits the answers in a message. Returns the turn and the IDs of the answered actions."""
        turn = await self._turn(message.task_id)
        if message.context_id not in ("", turn.session_id):
            raise InvalidParamsError("`message.contextId` doesn't match the task. Omit it.")
        if turn.status in ENDED_STATUSES:
            raise UnsupportedOperationError(f"The task is already {turn.status}. Start a new task in the same context.")
        answers = answers_of(message)
        require_scopes(self.caller, {scope_to_answer(answer) for answer in answers.values()})
        for action_id, answer in answers.items():
            try:
                turn = await self.door.turns.answer(self.write, turn.session_id, turn.turn_id, action_id, answer)
            except NotFound:
                raise InvalidParamsError(
                    f"The task has no action {action_id}. Use an action_id from the task's status message."
                ) from None
        return turn, answers.keys()

    async def _settled(self, turn: Turn) -> Turn:
        """Waits up to ten minutes for the turn to end or need an answer. Returns the turn."""
        if turn.status in ("queued", "running"):
            parts = self.door.turns.up_to_wait(self.caller.identity, self._follow(turn))
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_WAIT), aclosing(parts):
                    async for _ in parts:
                        pass
        return await self.door.turns.read(self.caller.identity, turn.turn_id)

    async def _read(self, turn_id: str, problem: ServiceError | None) -> Turn:
        """Returns the turn. If the turn doesn't exist because it was refused, raises ``problem``."""
        try:
            return await self.door.turns.read(self.caller.identity, turn_id)
        except NotFound:
            raise problem or TaskNotFoundError from None

    def _follow(self, turn: Turn) -> AsyncGenerator[StreamedEvent | None, None]:
        return self.door.reader.turn(self.caller.identity, turn.session_id, turn.turn_id, START)

    async def _updates(
        self,
        session_id: str,
        turn_id: str,
        events: AsyncGenerator[StreamedEvent | None, None],
        *,
        answered: Collection[str] = (),
        known: Collection[str] = (),
    ) -> AsyncGenerator[StreamResponse | None, None]:
        updates = TaskUpdates(session_id, turn_id, self._files(session_id))
        parts = self.door.turns.up_to_wait(self.caller.identity, events, known, answered)
        async with aclosing(parts):
            async for part in parts:
                if part is None:
                    yield None
                elif isinstance(part, Turn):
                    yield updates.waiting(part.required_actions)
                else:
                    for update in updates.take(part):
                        yield update

    def _repeatable(self, message: Message) -> Write:
        """Returns the message as a write that is executed once per message ID."""
        values: Mapping[str, object] = MessageToDict(message)
        path = f"/a2a/{self.agent.agent_key}"
        return replace(self.write, request=repeatable(self.caller, "POST", path, message.message_id, values))

    def _task(self, turn: Turn, history: Sequence[Message] = (), *, with_artifacts: bool = True) -> Task:
        self.headers.update(turn_headers(turn.session_id, turn.turn_id))
        return task_of(turn, self._files(turn.session_id), history, with_artifacts=with_artifacts)

    def _sent(self, params: SendMessageRequest, turn: Turn) -> SendMessageResponse:
        return SendMessageResponse(task=self._task(turn, self._history(params, turn.session_id, turn.turn_id)))

    def _history(self, params: SendMessageRequest, session_id: str, turn_id: str) -> list[Message]:
        configuration = params.configuration
        if configuration.HasField("history_length") and configuration.history_length == 0:
            return []
        own = Message()
        own.CopyFrom(params.message)
        own.context_id, own.task_id = session_id, turn_id
        return [own]

    def _files(self, session_id: str) -> str:
        return f"{self.base}/api/v1/sessions/{session_id}/artifacts"
