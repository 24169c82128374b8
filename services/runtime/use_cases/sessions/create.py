"""Creates sessions with a fixed agent configuration."""

from collections.abc import Callable, Sequence

from libs.contracts.messages import CommandContext
from libs.contracts.resources import sessions
from services.runtime.domain.beginnings import NewSession, new_session
from services.runtime.domain.sessions import SessionCreation, SessionCreations
from services.runtime.use_cases.engine.commits import GroupCommit


class CreateSession:
    """Creates sessions, several in one transaction. ``prime_cache`` caches a session for its first turn."""

    def __init__(self, creations: SessionCreations, prime_cache: Callable[[NewSession], None]) -> None:
        self._creations = creations
        self._prime_cache = prime_cache
        self._commits = GroupCommit[SessionCreation, None](self._commit, lambda creation: creation.session.company_id)

    async def __call__(self, command: sessions.CreateSession, context: CommandContext) -> None:
        """Creates a session. Raises ValidationFailed, Conflict, QuotaExceeded or AlreadyProcessed."""
        session = new_session(command, command.session_id, context.identity)
        await self._commits.submit(SessionCreation(session, context))

    async def _commit(self, creations: Sequence[SessionCreation]) -> Sequence[None]:
        await self._creations.add(creations)
        for creation in creations:
            # Don't cache a session without an agent, since another worker may set its agent.
            if creation.session.config_hash:
                self._prime_cache(creation.session)
        return [None] * len(creations)
