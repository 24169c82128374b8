from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from libs.contracts.api.sessions import HistoryMessage
from libs.contracts.commands.runtime import CreateSession
from libs.contracts.events.runtime import SessionCreated
from libs.contracts.identity import Identity
from libs.contracts.messages import Command
from services.gateway.domain.idempotency import Write
from services.gateway.use_cases.agent_configurations import AgentConfigurations
from services.gateway.use_cases.command_dispatcher import CommandDispatcher


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Opens a session with a configuration, or with a stored agent that ``seen_by`` may see."""

    commands: CommandDispatcher
    configurations: AgentConfigurations

    async def __call__(
        self,
        write: Write,
        wanted: dict[str, Any],
        seen_by: Identity,
        messages: Sequence[HistoryMessage] = (),
        *,
        session_id: str | None = None,
    ) -> SessionCreated:
        """``messages``: the conversation that it begins with. ``session_id``: by default that of the command."""

        async def make(command_id: str) -> Command:
            # The configuration is kept with the session: a turn never needs the registry.
            beginning = await self.configurations.of_document(seen_by, wanted)
            given = {**dict(beginning), "messages": list(messages)}
            return CreateSession.model_construct(session_id=session_id or command_id, **given)

        created = await self.commands.create(write, CreateSession, make, subject=session_id)
        return SessionCreated.decode(created.payload)
