"""Agents, sessions and turns for adapters of other protocols: what they do beside submitting and following turns."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID, uuid5

import orjson
from pydantic import TypeAdapter

from libs.contracts.api.agents import Agent
from libs.contracts.api.sessions import (
    ActionPage,
    HistoryMessage,
    Message,
    MessagePage,
    OpenAction,
    ResolveActionBody,
    Session,
    Turn,
    TurnPage,
    TurnStatus,
)
from libs.contracts.commands.runtime import (
    AddMessages,
    CancelTurn,
    CreateSession,
    DeleteSession,
    ForkSession,
    ResolveAction,
    SessionBeginning,
    UpdateSession,
)
from libs.contracts.errors import Conflict, NotFound
from libs.contracts.events.runtime import ResolveActionAccepted, SessionCreated, SessionUpdated
from libs.contracts.identifiers import is_agent_key, is_id
from libs.contracts.identity import Identity
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.connections import PublicUse
from services.gateway.domain.idempotency import IdempotentRequest, Write
from services.gateway.domain.ports import IdempotencyStore
from services.gateway.domain.turn_progress import TurnProgress, typed
from services.gateway.domain.turn_stream import TurnStream
from services.gateway.use_cases.agent_configurations import AgentConfigurations
from services.gateway.use_cases.begin_turn import BeginTurn
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.follow_turn import FollowTurn
from services.gateway.use_cases.open_session import OpenSession
from services.gateway.use_cases.principals import GATEWAY
from services.gateway.use_cases.submit_turn import SubmitTurn
from services.gateway.use_cases.turn_history import FollowedTurn, TurnHistory

_AGENTS: Final = TypeAdapter(list[Agent])
_LAST: Final = 20


class TurnQuery(NamedTuple):
    """A choice among the turns with an agent, all of them by default. ``changed_after``: a timestamp.

    ``after``: the cursor that the page before has given.
    """

    agent_id: str
    session_id: str | None = None
    status: TurnStatus | None = None
    changed_after: str | None = None
    after: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ListAgents:
    """The stored agents that the caller may see."""

    upstreams: UpstreamClient

    async def __call__(self, identity: Identity) -> list[Agent]:
        return _AGENTS.validate_json(
            checked(await self.upstreams.request("GET", "registry", "/internal/agents", identity))
        )


@dataclass(frozen=True, slots=True)
class ListProviderModels:
    """The listed models of the providers that are configured, as ``provider:name``."""

    upstreams: UpstreamClient

    async def __call__(self, identity: Identity) -> list[str]:
        reply = checked(await self.upstreams.request("GET", "runtime", "/internal/models", identity))
        providers = orjson.loads(reply)["providers"]
        return [model["name"] for each in providers if each["configured"] for model in each["models"]]


@dataclass(frozen=True, slots=True)
class FindAgent:
    upstreams: UpstreamClient

    async def __call__(self, identity: Identity, agent_key: str) -> Agent:
        """Raises ``NotFound`` for an agent that is not there, or not for the caller."""
        if not is_agent_key(agent_key):
            raise NotFound("There is no agent with this key.")
        path = f"/internal/agents/by-key/{agent_key}"
        return Agent.model_validate_json(checked(await self.upstreams.request("GET", "registry", path, identity)))


@dataclass(frozen=True, slots=True)
class FindPublicAgent:
    upstreams: UpstreamClient

    async def __call__(self, agent_key: str) -> Agent:
        """For callers without a credential. Raises ``NotFound`` unless it is the key of a public agent."""
        if not is_agent_key(agent_key):
            raise NotFound("There is no agent with this key.")
        path = f"/internal/agents/public/{agent_key}"
        return Agent.model_validate_json(
            checked(await self.upstreams.request("GET", "registry", path, GATEWAY, params={"in_web_pages": "false"}))
        )


@dataclass(frozen=True, slots=True)
class OpenNamedSession:
    """Opens a session under a name that the caller has for it, or finds the one opened before.

    The session's id follows from company, user, agent and name: any number of first requests at once make one session.
    """

    open_session: OpenSession
    upstreams: UpstreamClient

    async def __call__(self, write: Write, agent_key: str, name: str, public: PublicUse | None = None) -> str:
        """``public``: that of a public principal, whose agent it is.

        Returns the session's id. Raises ``NotFound`` for an unknown agent, and ``Conflict`` for a name whose session
        was deleted.
        """
        session_id = named_session_id(write.identity, agent_key, name)
        if not await self._is_there(write.identity, session_id):
            wanted, sees_as = (
                ({"agent_key": agent_key}, write.identity)
                if public is None
                else ({"agent_id": public.agent_id}, public.sees_as)
            )
            # Not the session's own id, under which a refusal would be its first event.
            own = replace(write, request=None, command_id=str(uuid5(UUID(session_id), "create")))
            try:
                await self.open_session(own, wanted, sees_as, session_id=session_id)
            except Conflict:
                # After a refusal that has passed, each of several repeats sends a command of its own.
                if not await self._is_there(write.identity, session_id):
                    raise
        return session_id

    async def _is_there(self, identity: Identity, session_id: str) -> bool:
        found = await self.upstreams.request("GET", "runtime", f"/internal/sessions/{session_id}", identity)
        if found.status != 404:
            checked(found)
        return found.status != 404


def named_session_id(identity: Identity, agent_key: str, name: str) -> str:
    parts = orjson.dumps([identity.company_id, identity.user_id, agent_key, name])
    return str(UUID(bytes=hashlib.sha256(parts).digest()[:16], version=5))


@dataclass(frozen=True, slots=True)
class ReadSession:
    upstreams: UpstreamClient

    async def __call__(self, identity: Identity, session_id: str) -> Session:
        """Raises ``NotFound``, also for text that is no id."""
        path = f"/internal/sessions/{_id(session_id, 'session')}"
        return Session.model_validate_json(checked(await self.upstreams.request("GET", "runtime", path, identity)))


@dataclass(frozen=True, slots=True)
class ReadLastMessages:
    upstreams: UpstreamClient

    async def __call__(self, identity: Identity, session_id: str) -> Sequence[Message]:
        """The session's last twenty messages, oldest first."""
        total = (await self._page(identity, session_id, limit=1, offset=0)).total
        if total == 0:
            return ()
        last = await self._page(identity, session_id, limit=_LAST, offset=max(0, total - _LAST))
        return last.messages

    async def _page(self, identity: Identity, session_id: str, **page: int) -> MessagePage:
        path = f"/internal/sessions/{session_id}/messages"
        return MessagePage.model_validate_json(
            checked(await self.upstreams.request("GET", "runtime", path, identity, params=page))
        )


@dataclass(frozen=True, slots=True)
class ListSessionActions:
    upstreams: UpstreamClient

    async def __call__(self, identity: Identity, session_id: str) -> Sequence[OpenAction]:
        """The open actions of a session's turn."""
        params = {"session_id": session_id, "limit": 200}
        reply = await self.upstreams.request("GET", "runtime", "/internal/actions", identity, params=params)
        return ActionPage.model_validate_json(checked(reply)).actions


@dataclass(frozen=True, slots=True)
class ReadTurn:
    """A turn by its id alone, for protocols whose ids of turns do not name the session."""

    upstreams: UpstreamClient

    async def __call__(self, identity: Identity, turn_id: str) -> Turn:
        """Raises ``NotFound``, also for text that is no id."""
        path = f"/internal/turns/{_id(turn_id, 'turn')}"
        return Turn.model_validate_json(checked(await self.upstreams.request("GET", "runtime", path, identity)))


@dataclass(frozen=True, slots=True)
class ListTurns:
    upstreams: UpstreamClient

    async def __call__(self, identity: Identity, wanted: TurnQuery) -> TurnPage:
        """The caller's turns with an agent, those that changed last first."""
        given = {name: value for name, value in wanted._asdict().items() if value is not None}
        reply = await self.upstreams.request("GET", "runtime", "/internal/turns", identity, params=given)
        return TurnPage.model_validate_json(checked(reply))


@dataclass(frozen=True, slots=True)
class FindTurn:
    """The turn of a request that is known by its idempotency key alone."""

    idempotency: IdempotencyStore

    async def __call__(self, request: IdempotentRequest) -> str | None:
        """Returns the turn's id, for a request of the last days."""
        return await self.idempotency.find(request)


@dataclass(frozen=True, slots=True)
class ReplayTurn:
    """Reads the events of a turn up to now, with the texts of its finished steps; it does not wait for more."""

    history: TurnHistory

    async def __call__(self, identity: Identity, session_id: str, turn_id: str) -> list[TurnProgress]:
        """Without the end of a turn of which events are not kept any more. Raises ``NotFound``."""
        turn, stream = FollowedTurn(session_id, turn_id, identity), TurnStream()
        events = await self.history.complete(turn, stream, await self.history.watch(turn, stream))
        return [progress for event in events if (progress := typed(event)) is not None]


@dataclass(frozen=True, slots=True)
class AnswerAction:
    """Answers an open action of a waiting turn. Entrypoints check the scope that the answer takes."""

    commands: CommandDispatcher

    async def __call__(
        self, write: Write, session_id: str, turn_id: str, action_id: str, answer: ResolveActionBody
    ) -> Turn:
        """Returns the turn after it. Raises ``Conflict`` for an action that was answered otherwise, or is over."""
        command = ResolveAction(
            session_id=session_id,
            turn_id=turn_id,
            action_id=_id(action_id, "action"),
            decision=answer.decision,
            reason=answer.reason,
            output=answer.output,
            error=answer.error,
        )
        accepted = await self.commands.run(write, command, subject=turn_id)
        return ResolveActionAccepted.decode(accepted.payload).turn


@dataclass(frozen=True, slots=True)
class CancelAgentTurn:
    commands: CommandDispatcher

    async def __call__(self, write: Write, session_id: str, turn_id: str) -> None:
        """Raises ``Conflict`` for a turn that has ended."""
        await self.commands.run(write, CancelTurn(session_id=session_id, turn_id=turn_id), subject=turn_id)


@dataclass(frozen=True, slots=True)
class ForkAgentSession:
    commands: CommandDispatcher

    async def __call__(self, write: Write, session_id: str, up_to_turn_id: str | None) -> str:
        """Returns the id of a session with a copy of the history up to that turn. Raises ``Conflict`` while it runs."""

        def make(new_id: str) -> ForkSession:
            return ForkSession(session_id=new_id, source_session_id=session_id, up_to_turn_id=up_to_turn_id)

        created = await self.commands.create(write, ForkSession, make)
        return SessionCreated.decode(created.payload).session_id


@dataclass(frozen=True, slots=True)
class BeginSession:
    """Opens a session with a history, metadata or for a time."""

    commands: CommandDispatcher

    async def __call__(self, write: Write, beginning: SessionBeginning) -> str:
        """Returns its id."""

        def make(new_id: str) -> CreateSession:
            return CreateSession(session_id=new_id, **dict(beginning))

        created = await self.commands.create(write, CreateSession, make)
        return SessionCreated.decode(created.payload).session_id


@dataclass(frozen=True, slots=True)
class ChangeSession:
    commands: CommandDispatcher

    async def __call__(
        self,
        write: Write,
        session_id: str,
        *,
        metadata: dict[str, str] | None = None,
        agent: SessionBeginning | None = None,
    ) -> None:
        """Raises ``Conflict`` for the agent of a session that has one already."""
        command = UpdateSession(session_id=_id(session_id, "session"), metadata=metadata, agent=agent)
        await self.commands.run(write, command, subject=session_id)


@dataclass(frozen=True, slots=True)
class AddSessionMessages:
    """Adds to a session's history between its turns."""

    commands: CommandDispatcher

    async def __call__(self, write: Write, session_id: str, messages: Sequence[HistoryMessage]) -> Sequence[Message]:
        """Returns the messages as they are listed from now on. Raises ``Conflict`` while a turn is under way."""
        command = AddMessages(session_id=_id(session_id, "session"), messages=list(messages))
        outcome = await self.commands.run(write, command, subject=session_id)
        return SessionUpdated.decode(outcome.payload).messages


@dataclass(frozen=True, slots=True)
class RemoveSession:
    """Deletes a session with its turns; a running one is cancelled first."""

    commands: CommandDispatcher

    async def __call__(self, write: Write, session_id: str) -> None:
        await self.commands.run(write, DeleteSession(session_id=_id(session_id, "session")), subject=session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurns:
    """Everything that an adapter of a protocol does with agents, sessions and turns."""

    list_agents: ListAgents
    list_provider_models: ListProviderModels
    find_agent: FindAgent
    find_public_agent: FindPublicAgent
    open_session: OpenSession
    open_named_session: OpenNamedSession
    read_session: ReadSession
    read_last_messages: ReadLastMessages
    list_actions: ListSessionActions
    begin_session: BeginSession
    change_session: ChangeSession
    add_messages: AddSessionMessages
    fork_session: ForkAgentSession
    remove_session: RemoveSession
    configurations: AgentConfigurations
    begin: BeginTurn
    submit: SubmitTurn
    follow: FollowTurn
    replay: ReplayTurn
    read: ReadTurn
    list: ListTurns
    find: FindTurn
    answer: AnswerAction
    cancel: CancelAgentTurn


def agent_turns(
    commands: CommandDispatcher,
    idempotency: IdempotencyStore,
    upstreams: UpstreamClient,
    follow: FollowTurn,
    configurations: AgentConfigurations,
) -> AgentTurns:
    """These use cases on the gateway's mechanisms."""
    open_session = OpenSession(commands, configurations)
    return AgentTurns(
        list_agents=ListAgents(upstreams),
        list_provider_models=ListProviderModels(upstreams),
        find_agent=FindAgent(upstreams),
        find_public_agent=FindPublicAgent(upstreams),
        open_session=open_session,
        open_named_session=OpenNamedSession(open_session, upstreams),
        read_session=ReadSession(upstreams),
        read_last_messages=ReadLastMessages(upstreams),
        list_actions=ListSessionActions(upstreams),
        begin_session=BeginSession(commands),
        change_session=ChangeSession(commands),
        add_messages=AddSessionMessages(commands),
        fork_session=ForkAgentSession(commands),
        remove_session=RemoveSession(commands),
        configurations=configurations,
        begin=BeginTurn(commands, follow.history),
        submit=SubmitTurn(commands, follow.history),
        follow=follow,
        replay=ReplayTurn(follow.history),
        read=ReadTurn(upstreams),
        list=ListTurns(upstreams),
        find=FindTurn(idempotency),
        answer=AnswerAction(commands),
        cancel=CancelAgentTurn(commands),
    )


def _id(value: str, thing: str) -> str:
    if not is_id(value):
        raise NotFound(f"There is no {thing} with this id.")
    return value


def part_of(write: Write, name: str) -> Write:
    """A further write of the same request, such as the session that a turn needs: a repeat repeats each of them."""
    request = write.request
    own = None if request is None else replace(request, path=f"{request.path}#{name}")
    return replace(write, request=own, command_id=None)
