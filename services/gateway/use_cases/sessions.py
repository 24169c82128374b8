"""Opens, reads, changes and deletes sessions."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid5

import orjson

from libs.contracts.errors import Conflict
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Identity
from libs.contracts.messages import Command
from libs.contracts.resources.actions import ActionPage, OpenAction
from libs.contracts.resources.messages import HistoryMessage, Message, MessagePage
from libs.contracts.resources.sessions import (
    AddMessages,
    CreateSession,
    DeleteSession,
    ForkSession,
    Session,
    SessionBeginning,
    SessionCreated,
    SessionUpdated,
    UpdateSession,
)
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.connections import PublicUse
from services.gateway.domain.idempotency import Write
from services.gateway.use_cases.agents import Agents
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.image_uploads import ImageUploads


@dataclass(frozen=True, slots=True)
class Sessions:
    """Manages sessions. Methods for a session raise ``NotFound`` if the caller can't see it."""

    commands: CommandDispatcher
    agents: Agents
    upstreams: UpstreamClient
    images: ImageUploads

    async def open(
        self,
        write: Write,
        wanted: dict[str, Any],
        seen_by: Identity,
        messages: Sequence[HistoryMessage] = (),
        *,
        session_id: str | None = None,
    ) -> SessionCreated:
        """Opens a session with a configuration, or with a stored agent that ``seen_by`` can see.

        ``messages``: the initial conversation. ``session_id`` defaults to the command's ID.
        """

        async def make(command_id: str) -> Command:
            # The session stores the configuration, so its turns don't need the registry.
            beginning = await self.agents.normalized(seen_by, wanted)
            given = {**dict(beginning), "messages": list(messages)}
            return CreateSession.model_construct(session_id=session_id or command_id, **given)

        created = await self.commands.create(write, CreateSession, make)
        return SessionCreated.decode(created.payload)

    async def open_named(self, write: Write, agent_key: str, name: str, public: PublicUse | None = None) -> str:
        """Opens or finds the session with this name, and returns its ID. With ``public``, uses the public key's agent.

        The session's ID is derived from the company, user, agent and name, so concurrent first requests create only one
        session. Raises ``NotFound`` for an unknown agent, and ``Conflict`` if the session has been deleted.
        """
        session_id = named_session_id(write.identity, agent_key, name)
        if not await self._is_there(write.identity, session_id):
            wanted, sees_as = (
                ({"agent_key": agent_key}, write.identity)
                if public is None
                else ({"agent_id": public.agent_id}, public.sees_as)
            )
            # Uses an ID other than the session's. Otherwise, a refusal would become the session's first event.
            own = replace(write, request=None, command_id=str(uuid5(UUID(session_id), "create")))
            try:
                await self.open(own, wanted, sees_as, session_id=session_id)
            except Conflict:
                # After a transient refusal, each concurrent retry sends its own command.
                if not await self._is_there(write.identity, session_id):
                    raise
        return session_id

    async def begin(self, write: Write, beginning: SessionBeginning) -> str:
        """Opens a session, optionally with a history, metadata and an expiry. Returns its ID.

        A history with images is added in a second step, because images are stored in the session.
        """
        later = beginning.messages if write.has_images else ()
        begun = beginning.model_copy(update={"messages": []}) if later else beginning

        def make(new_id: str) -> CreateSession:
            return CreateSession(session_id=new_id, **dict(begun))

        created = await self.commands.create(write, CreateSession, make)
        session_id = SessionCreated.decode(created.payload).session_id
        if later:
            await self.add_messages(write.part("history"), session_id, later)
        return session_id

    async def fork(
        self,
        write: Write,
        session_id: str,
        *,
        up_to_turn_id: str | None = None,
        before_turn_id: str | None = None,
        expires_after: int | None = None,
    ) -> SessionCreated:
        """Opens a session with a copy of the history. ``up_to_turn_id`` includes that turn; ``before_turn_id`` doesn't.

        ``expires_after``: makes the fork unlisted, and deletes it after this many seconds. Raises ``Conflict`` while
        the turn is running.
        """
        source = id_of(session_id, "session")
        through = None if up_to_turn_id is None else id_of(up_to_turn_id, "turn")
        before = None if before_turn_id is None else id_of(before_turn_id, "turn")

        def make(new_id: str) -> ForkSession:
            return ForkSession(
                session_id=new_id,
                source_session_id=source,
                up_to_turn_id=through,
                before_turn_id=before,
                listed=expires_after is None,
                expires_after=expires_after,
            )

        return SessionCreated.decode((await self.commands.create(write, ForkSession, make)).payload)

    async def change(
        self,
        write: Write,
        session_id: str,
        *,
        metadata: dict[str, str] | None = None,
        agent: SessionBeginning | None = None,
    ) -> None:
        """Changes a session. Raises ``Conflict`` if an agent is given but the session already has an agent."""
        command = UpdateSession(session_id=id_of(session_id, "session"), metadata=metadata, agent=agent)
        await self.commands.run(write, command)

    async def add_messages(
        self, write: Write, session_id: str, messages: Sequence[HistoryMessage]
    ) -> Sequence[Message]:
        """Appends messages to the history, and returns them as they appear in lists.

        Raises ``Conflict`` while a turn is active.
        """
        session_id = id_of(session_id, "session")
        history = await self.images.history(write, session_id, messages)
        command = AddMessages(session_id=session_id, messages=list(history))
        outcome = await self.commands.run(write, command)
        return SessionUpdated.decode(outcome.payload).messages

    async def delete(self, write: Write, session_id: str) -> None:
        """Deletes a session and its turns. Cancels a running turn first."""
        command = DeleteSession(session_id=id_of(session_id, "session"))
        await self.commands.run(write, command)

    async def read(self, identity: Identity, session_id: str) -> Session:
        path = f"/internal/sessions/{id_of(session_id, 'session')}"
        return await self.upstreams.read(Session, "runtime", path, identity)

    async def messages(self, identity: Identity, session_id: str, **page: Any) -> MessagePage:
        path = f"/internal/sessions/{id_of(session_id, 'session')}/messages"
        return await self.upstreams.read(MessagePage, "runtime", path, identity, page)

    async def last_messages(self, identity: Identity, session_id: str, limit: int) -> MessagePage:
        """Returns the session's last messages, oldest first."""
        page = await self.messages(identity, session_id, limit=limit, offset=0)
        if page.has_more:
            page = await self.messages(identity, session_id, limit=limit, offset=page.total - limit)
        return page

    async def open_actions(self, identity: Identity, session_id: str) -> Sequence[OpenAction]:
        """Returns the actions that need answers."""
        params = {"session_id": session_id, "limit": 200}
        return (await self.upstreams.read(ActionPage, "runtime", "/internal/actions", identity, params)).actions

    async def _is_there(self, identity: Identity, session_id: str) -> bool:
        found = await self.upstreams.get("runtime", f"/internal/sessions/{session_id}", identity)
        if found.status != 404:
            checked(found)
        return found.status != 404


def named_session_id(identity: Identity, agent_key: str, name: str) -> str:
    parts = orjson.dumps([identity.company_id, identity.user_id, agent_key, name])
    return str(UUID(bytes=hashlib.sha256(parts).digest()[:16], version=5))
