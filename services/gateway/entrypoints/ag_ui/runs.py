"""Executes AG-UI runs. A run starts a turn, resumes a waiting turn, or follows a running turn."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import orjson
from ag_ui.core import BaseEvent, RunAgentInput, UserMessage

from libs.contracts.errors import Conflict, invalid_field
from libs.contracts.messages import public_name
from libs.contracts.resources.actions import OpenAction, ResolveActionBody
from libs.contracts.resources.turns import RequiredAction, Turn, TurnOptions, TurnRequest
from services.gateway.domain.accounts import Principal
from services.gateway.domain.idempotency import Write
from services.gateway.domain.public_view import public_action, public_event
from services.gateway.domain.turn_ends import ENDED_STATUSES
from services.gateway.domain.turn_options import check_options
from services.gateway.domain.turn_stream import START, StreamedEvent
from services.gateway.entrypoints.ag_ui.run_events import RunEvents
from services.gateway.entrypoints.ag_ui.run_input import Tail, answers_of, content_of, new_of, options_of, tail_of
from services.gateway.entrypoints.door.application import Door, turn_headers
from services.gateway.entrypoints.door.callers import require_scopes
from services.gateway.entrypoints.door.writes import repeatable
from services.gateway.use_cases.turns import scope_to_answer

_LAST: Final = 20
_SEVERAL: Final = "The thread is waiting for answers. Resume its interrupts or send the tool results."


@dataclass(frozen=True, slots=True)
class Thread:
    """The current state of a thread's session.

    ``unanswered``: the texts of the user messages after the agent's last reply. ``last_turn_id``: the ID of the
    last message's turn.
    """

    session_id: str
    actions: Sequence[OpenAction]
    unanswered: Sequence[str]
    last_turn_id: str | None


class FollowedTurn(NamedTuple):
    """The turn whose events become the run's events. ``answered``: the IDs of the actions that the run has answered."""

    turn_id: str
    events: AsyncGenerator[StreamedEvent | None, None]
    answered: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Executes a caller's runs. ``headers``: the response's headers, which are complete before the first event."""

    door: Door
    caller: Principal
    write: Write
    agent_key: str
    headers: dict[str, str]

    async def __call__(self, given: RunAgentInput) -> AsyncGenerator[BaseEvent | None, None]:
        """Yields the run's events, and ``None`` as a keep-alive. A refused run raises an error before any event."""
        thread = await self._thread(given)
        self.headers.update(turn_headers(thread.session_id))
        async with self._turn(given, thread) as turn:
            run, has_begun = RunEvents(given, thread.session_id, turn.turn_id), False
            shown = turn.events if self.caller.public is None else self._for_public(given, turn.events)
            parts = self.door.turns.up_to_wait(self.caller.identity, shown, answered=turn.answered)
            async with aclosing(parts):
                async for part in parts:
                    if not has_begun:
                        # The first event shows that the turn was accepted.
                        self.headers.update(turn_headers(thread.session_id, turn.turn_id))
                        for event in run.begin():
                            yield event
                        has_begun = True
                    if part is None:
                        yield None
                        continue
                    for event in run.waiting(self._actions(part)) if isinstance(part, Turn) else run.take(part):
                        yield event

    async def _thread(self, given: RunAgentInput) -> Thread:
        sessions, who = self.door.sessions, self.caller.identity
        session_id = await sessions.open_named(
            self.write, self.agent_key, f"ag-ui/{given.thread_id}", self.caller.public
        )
        messages = (await sessions.last_messages(who, session_id, _LAST)).messages
        last_answer = max((index for index, each in enumerate(messages) if each.role == "assistant"), default=-1)
        unanswered = [each.content for each in messages[last_answer + 1 :]]
        actions = await sessions.open_actions(who, session_id) if unanswered else []
        return Thread(session_id, actions, unanswered, messages[-1].turn_id if messages else None)

    @asynccontextmanager
    async def _turn(self, given: RunAgentInput, thread: Thread) -> AsyncIterator[FollowedTurn]:
        """Answers the waiting turn, starts a turn or, without new input, finds the last turn. Retries a failed turn."""
        tail = tail_of(given, thread.last_turn_id if thread.unanswered else None)
        answers = answers_of(given, tail, thread.actions)
        new = new_of(tail.users, thread.unanswered)
        if answers:
            if new:
                raise Conflict(_SEVERAL)
            yield await self._answered(thread, answers)
            return
        if not new:
            turn = await self._last_turn(given, thread, tail)
            if not tail.users or turn.status not in ENDED_STATUSES - {"completed"}:
                yield self._followed(thread, turn.turn_id)
                return
            new, thread = tail.users[-1:], replace(thread, actions=())
        async with self._submitted(given, thread, new) as submitted:
            yield submitted

    async def _answered(self, thread: Thread, answers: Mapping[str, ResolveActionBody]) -> FollowedTurn:
        require_scopes(self.caller, {scope_to_answer(answer) for answer in answers.values()})
        turn_id = thread.actions[0].turn_id
        for action_id, answer in answers.items():
            await self.door.turns.answer(self.write, thread.session_id, turn_id, action_id, answer)
        return self._followed(thread, turn_id, answers)

    @asynccontextmanager
    async def _submitted(
        self, given: RunAgentInput, thread: Thread, new: Sequence[UserMessage]
    ) -> AsyncIterator[FollowedTurn]:
        """Starts a turn. Cancels the current turn if it's only waiting for results of the client's tools.

        The new turn is queued first, so that a refusal doesn't affect the current turn.
        """
        content = content_of(new)
        asked = TurnRequest(stream=True, options=await self._options(given, thread))
        if asked.options is not None:
            check_options(asked.options, self.caller)
        if any(action.kind == "approval" for action in thread.actions):
            raise Conflict(_SEVERAL)
        async with (
            self.door.turns.submit(self._repeatable(given), thread.session_id, content, asked) as submitted,
            aclosing(self._in_place_of(thread, submitted.follow())) as events,
        ):
            yield FollowedTurn(submitted.command_id, events)

    async def _in_place_of(
        self, thread: Thread, follow: AsyncGenerator[StreamedEvent | None, None]
    ) -> AsyncGenerator[StreamedEvent | None, None]:
        """Yields the new turn's events. Cancels the waiting turn when the first event shows that the new turn is
        accepted.
        """
        waiting = {action.turn_id for action in thread.actions}
        async with aclosing(follow):
            async for event in follow:
                while waiting:
                    with suppress(Conflict):
                        # The turn may have ended in the meantime.
                        await self.door.turns.cancel(self.write, thread.session_id, waiting.pop())
                yield event

    async def _last_turn(self, given: RunAgentInput, thread: Thread, tail: Tail) -> Turn:
        """Returns the last turn. Raises ``ValidationFailed`` if the messages don't end with a part of it."""
        has_part_of_it = any(message.id.startswith(f"{thread.last_turn_id}.") for message in given.messages)
        if thread.last_turn_id is None or not (tail.users or tail.results or given.resume or has_part_of_it):
            message = "must contain a new message after the agent's last message"
            raise invalid_field(
                ["messages"], message, kind="nothing_new", hint="add a user message, or resume an interrupt"
            )
        return await self.door.turns.read(self.caller.identity, thread.last_turn_id)

    async def _options(self, given: RunAgentInput, thread: Thread) -> TurnOptions | None:
        own: Sequence[dict[str, Any]] = ()
        if given.tools:
            session = await self.door.sessions.read(self.caller.identity, thread.session_id)
            own = session.agent_config.get("client_tools") or ()
        return options_of(given, self.caller, own)

    def _followed(self, thread: Thread, turn_id: str, answered: Collection[str] = ()) -> FollowedTurn:
        events = self.door.reader.turn(self.caller.identity, thread.session_id, turn_id, START)
        return FollowedTurn(turn_id, events, answered)

    async def _for_public(
        self, given: RunAgentInput, follow: AsyncGenerator[StreamedEvent | None, None]
    ) -> AsyncGenerator[StreamedEvent | None, None]:
        own = {tool.name for tool in given.tools or ()}
        async with aclosing(follow):
            async for event in follow:
                if event is None:
                    yield None
                else:
                    yield event._replace(payload=public_event(public_name(event.type), event.payload, own))

    def _actions(self, turn: Turn) -> Sequence[RequiredAction]:
        if self.caller.public is None:
            return turn.required_actions
        return [public_action(action) for action in turn.required_actions]

    def _repeatable(self, given: RunAgentInput) -> Write:
        """Returns the run as a write that is executed once per run ID. The history in later requests is ignored."""
        path = f"/ag-ui/{self.agent_key}/{hashlib.sha256(given.thread_id.encode()).hexdigest()}"
        last = next(message for message in reversed(given.messages) if isinstance(message, UserMessage))
        values = orjson.loads(last.model_dump_json())
        return replace(self.write, request=repeatable(self.caller, "POST", path, given.run_id, values))
