"""Asks an agent: starts a turn, reports progress, and returns the result."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from libs.contracts.errors import Conflict, ServiceError, error_from
from libs.contracts.messages import Event
from libs.contracts.resources.agents import Agent
from libs.contracts.resources.turns import TurnActionRequired, TurnCancelled, TurnCompleted, TurnFailed, TurnRequest
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.domain.turn_progress import typed_events
from services.gateway.entrypoints.door.answers import MAX_WAIT
from services.gateway.entrypoints.door.application import Door
from services.gateway.entrypoints.mcp.answers import completed, state_of
from services.gateway.entrypoints.mcp.calls import Call
from services.gateway.entrypoints.mcp.progress import ProgressWriter
from services.gateway.entrypoints.mcp.schemas import AgentAnswer, Ask
from services.gateway.use_cases.turns import SubmittedTurn

_CANCEL_SECONDS: Final = 15.0
_log: Final = structlog.get_logger("gateway.mcp")


@dataclass(frozen=True, slots=True)
class Asking:
    """Executes the turns that tool calls start."""

    door: Door
    _cancelling: set[asyncio.Task[None]] = field(default_factory=set)

    async def ask(self, call: Call, agent_key: str, asked: Ask) -> AgentAnswer:
        """Sends a message to an agent, and returns its answer. If the call is cancelled, cancels the turn.

        Raises the turn's error if the turn is refused, fails or is cancelled.
        """
        identity = call.caller.identity
        agent = await self.door.agents.find(identity, agent_key)
        write = call.write({"agent_key": agent_key, **asked.model_dump(mode="json")})
        session_id = await self._session(write, agent, asked.session_id)
        request = TurnRequest(stream=call.is_followed)
        async with self.door.turns.submit(write, session_id, asked.message, request) as turn:
            try:
                async with asyncio.timeout(MAX_WAIT):
                    return await self._outcome(call, turn)
            except TimeoutError:
                return state_of(await self.door.turns.read(identity, turn.command_id))
            except asyncio.CancelledError:
                if call.is_cancelled:
                    self.cancel(write, turn.command_id)
                raise

    def cancel(self, write: Write, which: str | IdempotentRequest) -> None:
        """Cancels a turn in a separate task. ``which``: the turn's ID, or the request that started the turn."""
        task = asyncio.create_task(self._cancel(replace(write, request=None), which), name="mcp.cancel")
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    async def _cancel(self, write: Write, which: str | IdempotentRequest) -> None:
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                turn_id = which if isinstance(which, str) else await self.door.turns.find(which)
                if turn_id is not None:
                    turn = await self.door.turns.read(write.identity, turn_id)
                    await self.door.turns.cancel(write, turn.session_id, turn_id)
        except (ServiceError, TimeoutError) as problem:
            # The turn has ended, or it continues without a reader, which is harmless.
            _log.info("turn.not_cancelled", problem=str(problem))

    async def _session(self, write: Write, agent: Agent, session_id: str | None) -> str:
        if session_id is None:
            opening = write.part("session")
            return (await self.door.sessions.open(opening, {"agent_id": agent.id}, write.identity)).session_id
        session = await self.door.sessions.read(write.identity, session_id)
        if session.agent_id != agent.id:
            raise Conflict(
                f"The session doesn't belong to the agent {agent.agent_key}. Omit session_id to start a new session."
            )
        return session.session_id

    async def _outcome(self, call: Call, turn: SubmittedTurn) -> AgentAnswer:
        progress, clock = ProgressWriter(), asyncio.get_running_loop().time
        async with aclosing(typed_events(turn.follow())) as events:
            async for each in events:
                if each is None:
                    continue
                if (message := progress.take(each.event, clock())) is not None:
                    await call.tell(message)
                if (answer := await self._answer(call, turn, each.event)) is not None:
                    return answer
        # The turn's events no longer exist.
        return state_of(await self.door.turns.read(call.caller.identity, turn.command_id))

    async def _answer(self, call: Call, turn: SubmittedTurn, event: Event) -> AgentAnswer | None:
        match event:
            case TurnCompleted():
                return completed(event)
            case TurnFailed():
                raise error_from(event.error)
            case TurnCancelled():
                raise Conflict("The turn was cancelled.")
            case TurnActionRequired():
                now = await self.door.turns.read(call.caller.identity, turn.command_id)
                return state_of(now) if now.status == "waiting" else None
        return None
