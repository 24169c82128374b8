"""A minimal registry and runtime in one service, over the real bus."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from pydantic_settings import SettingsConfigDict

from libs.contracts.errors import NotFound
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.replies import Reply, Usage
from libs.contracts.resources.agents import Agent, AgentUpdated
from libs.contracts.resources.sessions import CreateSession, DeleteSession, SessionCreated, SessionDeleted
from libs.contracts.resources.turns import (
    CancelTurn,
    CancelTurnAccepted,
    ExecuteTurn,
    Turn,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
    WatchedTurn,
)
from libs.contracts.timestamps import now_text
from libs.eventing import Transaction
from libs.service_defaults import Caller, Service, ServiceSettings
from tests.support import sample_owner

HELD = "hold this turn"
UNKNOWN_SESSION = "00000000-0000-0000-0000-000000000000"


class UpstreamSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="AES_OWNER_", extra="ignore", populate_by_name=True)


@dataclass
class UpstreamWork:
    """Ids of what was carried out for one company, in order."""

    turns: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)


class Upstream:
    """Completes a turn at once, unless its message is ``HELD``: then ``finish`` or a cancellation ends it."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self.service = Service("runtime", settings, migrations=sample_owner.MIGRATIONS)
        self.agents: dict[str, Agent] = {}
        self._contexts: dict[str, MessageContext] = {}
        self._work: defaultdict[str, UpstreamWork] = defaultdict(UpstreamWork)
        self.service.commands.handle(ExecuteTurn, self._execute, ends_later=True)
        self.service.commands.handle(CancelTurn, self._cancel)
        self.service.commands.handle(CreateSession, self._create)
        self.service.commands.handle(DeleteSession, self._delete)

        @self.service.http.post("/internal/agents/normalize")
        async def normalize(request: Request) -> dict[str, Any]:
            return {"agent_config": await request.json(), "config_hash": "hash", "agent_id": None}

        @self.service.http.get("/internal/agents/public/{key}")
        async def public_agent(key: str) -> Any:
            if key not in self.agents:
                raise NotFound("no agent with this key")
            return self.agents[key]

        @self.service.http.get("/internal/agents/by-key/{key}")
        async def agent_by_key(key: str) -> Any:
            return self.agents[key]

        @self.service.http.get("/internal/turns/{turn_id}")
        async def turn(turn_id: str) -> Turn:
            if turn_id not in self._contexts:
                raise NotFound("There is no turn with this ID.")
            return Turn(
                turn_id=turn_id,
                session_id=SESSION,
                status="running",
                attempt=1,
                position=0,
                correlation_id=self._contexts[turn_id].correlation_id,
                user_message_id="m1",
                created_at=now_text(),
            )

        @self.service.http.get("/internal/agents/{agent_id}")
        async def agent(agent_id: str) -> Any:
            return next(agent for agent in self.agents.values() if agent.id == agent_id)

        @self.service.http.get("/internal/sessions")
        async def sessions(caller: Caller, limit: int, offset: int) -> dict[str, Any]:
            return {"sessions": [], "total": len(self.work_of(caller.company_id).sessions), "has_more": False}

        @self.service.http.get("/internal/sessions/{session_id}")
        async def session(session_id: str) -> dict[str, Any]:
            return {"session_id": session_id}

        @self.service.http.post("/internal/sessions/{session_id}/turns/{turn_id}/watch")
        async def watch(session_id: str, turn_id: str) -> WatchedTurn:
            return WatchedTurn(status="running", sequence=1)

    def work_of(self, company_id: str) -> UpstreamWork:
        return self._work[company_id]

    async def close_to_the_public(self, agent: Agent) -> None:
        """The agent's key is good for nothing any more."""
        del self.agents[agent.agent_key]
        async with self.service.outbox.transaction(MessageContext(agent.company, "change")) as transaction:
            transaction.emit(AgentUpdated(agent=agent), subject=agent.id)

    async def finish(self, turn_id: str, text: str) -> None:
        """Complete a turn that was held, after the transaction that began it."""
        async with self.service.outbox.transaction(self._contexts[turn_id]) as transaction:
            await transaction.connection.execute(_LOCK, (turn_id,))
            transaction.emit(_completed(turn_id, text, self._contexts[turn_id]), subject=turn_id)

    async def _cancel(self, transaction: Transaction, command: CancelTurn, context: CommandContext) -> None:
        turn_id = command.turn_id
        self.work_of(context.message.company_id).cancelled.append(turn_id)
        place = {"session_id": command.session_id, "turn_id": turn_id}
        ended = TurnCancelled(**place, reason="its client asked for it")
        transaction.emit(ended, subject=turn_id, context=self._contexts[turn_id])
        transaction.emit(CancelTurnAccepted(**place), subject=turn_id)

    async def _create(self, transaction: Transaction, command: CreateSession, context: CommandContext) -> None:
        self.work_of(context.message.company_id).sessions.append(command.session_id)
        event = SessionCreated(session_id=command.session_id, config_hash=command.config_hash)
        transaction.emit(event, subject=command.session_id)

    async def _delete(self, transaction: Transaction, command: DeleteSession, _: CommandContext) -> None:
        if command.session_id == UNKNOWN_SESSION:
            raise NotFound("There is no session with this ID.")
        transaction.emit(SessionDeleted(session_id=command.session_id), subject=command.session_id)

    async def _execute(self, transaction: Transaction, command: ExecuteTurn, context: CommandContext) -> None:
        turn_id = context.command_id
        await transaction.connection.execute(_LOCK, (turn_id,))
        self.work_of(context.message.company_id).turns.append(turn_id)
        self._contexts[turn_id] = context.message
        started = TurnStarted(session_id=SESSION, turn_id=turn_id, attempt=1, user_message_id="m1")
        transaction.emit(started, subject=turn_id)
        if command.content != HELD:
            transaction.emit(_completed(turn_id, f"You said: {command.content}", context.message), subject=turn_id)


SESSION = "01890000-0000-7000-8000-000000000001"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def _completed(turn_id: str, text: str, context: MessageContext) -> TurnCompleted:
    return TurnCompleted(
        message_id="m2",
        response=Reply(content=text),
        correlation_id=context.correlation_id,
        session_id=SESSION,
        turn_id=turn_id,
        user_message_id="m1",
        usage=Usage(),
        config_hash="hash",
    )
