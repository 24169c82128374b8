"""Executes AG-UI runs. A run starts a turn, resumes a waiting turn, or follows a running turn."""

import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final

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
        tail = tail_of(given, thread.last_turn_id if thread.unanswered else None)
        answers = answers_of(given, tail, thread.actions)
        new = new_of(tail.users, thread.unanswered)
        if answers:
            events = self._answer(given, thread, answers, new)
        elif new:
            events = self._submit(given, thread, new)
        else:
            events = self._without_input(given, thread, tail)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _thread(self, given: RunAgentInput) -> Thread:
        sessions, who = self.door.sessions, self.caller.identity
        session_id = await sessions.open_named(
            self.write, self.agent_key, f"ag-ui/{given.thread_id}", self.caller.public
        )
        messages = await sessions.last_messages(who, session_id)
        last_answer = max((index for index, each in enumerate(messages) if each.role == "assistant"), default=-1)
        unanswered = [each.content for each in messages[last_answer + 1 :]]
        actions = await sessions.open_actions(who, session_id) if unanswered else []
        return Thread(session_id, actions, unanswered, messages[-1].turn_id if messages else None)

    async def _answer(
        self,
        given: RunAgentInput,
        thread: Thread,
        answers: Mapping[str, ResolveActionBody],
        new: Sequence[UserMessage],
    ) -> AsyncGenerator[BaseEvent | None, None]:
        """Answers the waiting turn, and yields the events that follow."""
        if new:
            raise Conflict(_SEVERAL)
        require_scopes(self.caller, {scope_to_answer(answer) for answer in answers.values()})
        turn_id = thread.actions[0].turn_id
        for action_id, answer in answers.items():
            await self.door.turns.answer(replace(self.write), thread.session_id, turn_id, action_id, answer)
        follow = self._follow(thread.session_id, turn_id)
        async for event in self._events(given, thread.session_id, turn_id, follow, answered=list(answers)):
            yield event

    async def _submit(
        self, given: RunAgentInput, thread: Thread, new: Sequence[UserMessage]
    ) -> AsyncGenerator[BaseEvent | None, None]:
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
            aclosing(self._in_place_of(thread, submitted.follow())) as follow,
        ):
            async for event in self._events(given, thread.session_id, submitted.command_id, follow):
                yield event

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
                        await self.door.turns.cancel(replace(self.write), thread.session_id, waiting.pop())
                yield event

    async def _without_input(
        self, given: RunAgentInput, thread: Thread, tail: Tail
    ) -> AsyncGenerator[BaseEvent | None, None]:
        """Follows the running turn, repeats open questions, or retries a failed turn."""
        turn = None
        has_part_of_it = any(message.id.startswith(f"{thread.last_turn_id}.") for message in given.messages)
        if thread.last_turn_id is not None and (tail.users or tail.results or given.resume or has_part_of_it):
            turn = await self.door.turns.read(self.caller.identity, thread.last_turn_id)
        if turn is None:
            message = "must contain a new message after the agent's last message"
            raise invalid_field(
                ["messages"], message, kind="nothing_new", hint="add a user message, or resume an interrupt"
            )
        if tail.users and turn.status in ENDED_STATUSES - {"completed"}:
            events = self._submit(given, replace(thread, actions=()), tail.users[-1:])
        else:
            follow = self._follow(thread.session_id, turn.turn_id)
            events = self._events(given, thread.session_id, turn.turn_id, follow)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _options(self, given: RunAgentInput, thread: Thread) -> TurnOptions | None:
        own: Sequence[dict[str, Any]] = ()
        if given.tools:
            session = await self.door.sessions.read(self.caller.identity, thread.session_id)
            own = session.agent_config.get("client_tools") or ()
        return options_of(given, self.caller, own)

    def _follow(self, session_id: str, turn_id: str) -> AsyncGenerator[StreamedEvent | None, None]:
        return self.door.reader.turn(self.caller.identity, session_id, turn_id, START)

    async def _events(
        self,
        given: RunAgentInput,
        session_id: str,
        turn_id: str,
        follow: AsyncGenerator[StreamedEvent | None, None],
        answered: Sequence[str] = (),
    ) -> AsyncGenerator[BaseEvent | None, None]:
        run = RunEvents(given, session_id, turn_id)
        shown = follow if self.caller.public is None else self._for_public(given, follow)
        async with aclosing(self.door.turns.up_to_wait(self.caller.identity, shown, answered=answered)) as parts:
            has_begun = False
            async for part in parts:
                if not has_begun:
                    # The first event shows that the turn was accepted.
                    self.headers.update(turn_headers(session_id, turn_id))
                    for event in run.begin():
                        yield event
                    has_begun = True
                if part is None:
                    yield None
                    continue
                for event in run.waiting(self._actions(part)) if isinstance(part, Turn) else run.take(part):
                    yield event

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
