from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from libs.contracts.api.sessions import HistoryMessage
from libs.contracts.commands.runtime import CreateSession
from libs.contracts.events.runtime import SessionCreated
from libs.contracts.identity import Identity
from libs.contracts.messages import Command
from libs.service_defaults.internal_calls import checked
from services.gateway.domain.idempotency import Write
from services.gateway.domain.ports import Upstreams
from services.gateway.use_cases.command_dispatcher import CommandDispatcher


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Opens a session with a configuration, or with a stored agent that ``seen_by`` may see."""

    commands: CommandDispatcher
    upstreams: Upstreams

    async def __call__(
        self, write: Write, wanted: dict[str, Any], seen_by: Identity, messages: Sequence[HistoryMessage] = ()
    ) -> SessionCreated:
        """``messages``: the conversation that it begins with."""

        async def make(session_id: str) -> Command:
            # The registry's answer is kept with the session: a turn never needs the registry.
            reply = await self.upstreams.request(
                "POST", "registry", "/internal/agents/normalize", seen_by, body=orjson.dumps(wanted)
            )
            return CreateSession(session_id=session_id, messages=list(messages), **orjson.loads(checked(reply)))

        return SessionCreated.decode((await self.commands.create(write, CreateSession, make)).payload)
