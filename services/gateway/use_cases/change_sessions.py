"""Opening and ending sessions, and stopping turns."""

from typing import Any

import orjson

from libs.contracts.commands.runtime import CancelTurn, CreateSession, DeleteSession
from libs.contracts.errors import NotFound
from libs.contracts.events.runtime import CancelTurnAccepted, SessionCreated
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command
from libs.service_defaults.upstream_answers import checked
from services.gateway.domain.ports import Upstreams
from services.gateway.use_cases.command_dispatcher import CommandDispatcher, Write


class ChangeSessions:
    """The session's id is the id of the command that opened it, so that a repeated creation finds the same one."""

    def __init__(self, commands: CommandDispatcher, upstreams: Upstreams) -> None:
        self._commands = commands
        self._upstreams = upstreams

    async def create(self, write: Write, wanted: dict[str, Any], seen_by: Identity) -> SessionCreated:
        """Open a session with a configuration, or the stored agent named in its place if ``seen_by`` may see it."""

        async def make(command_id: str) -> Command:
            # The registry's answer is kept with the session: a turn never needs the registry.
            reply = await self._upstreams.request(
                "POST", "registry", "/internal/agents/normalize", seen_by, body=orjson.dumps(wanted)
            )
            return CreateSession(session_id=command_id, **orjson.loads(checked(reply)))

        received = await self._commands.run(write, CreateSession, make)
        return SessionCreated.decode(received.payload)

    async def delete(self, write: Write, session_id: str) -> None:
        async def make(_: str) -> Command:
            return DeleteSession(session_id=session_id)

        if not is_id(session_id):
            raise NotFound("There is no session with this id.")
        await self._commands.run(write, DeleteSession, make, subject=session_id)

    async def cancel_turn(self, write: Write, session_id: str, turn_id: str) -> CancelTurnAccepted:
        """Raises ``Conflict`` when the turn has ended already."""

        async def make(_: str) -> Command:
            return CancelTurn(session_id=session_id, turn_id=turn_id)

        if not (is_id(session_id) and is_id(turn_id)):
            raise NotFound("There is no turn with this id.")
        received = await self._commands.run(write, CancelTurn, make, subject=turn_id)
        return CancelTurnAccepted.decode(received.payload)
