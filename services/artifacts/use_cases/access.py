"""Finds the sessions and artifacts that the caller may use."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from services.artifacts.adapters.internal_api import HttpSessions
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactReader
from services.artifacts.adapters.postgres.sessions import PostgresSessions
from services.artifacts.domain.artifacts import ArtifactNotFound, KnownSession, SessionNotFound, StoredArtifact
from services.artifacts.domain.links import LinkSigner, Parameters


@dataclass(frozen=True, slots=True)
class SessionAccess:
    """Finds sessions.

    Each session is looked up only once: its owner never changes, and an event reports its deletion.
    """

    known: PostgresSessions
    owner: HttpSessions

    async def readable(self, session_id: str, caller: Identity) -> KnownSession:
        """Returns the session if the caller may read it. Raises ``SessionNotFound`` if not."""
        return await self._find(session_id, caller, KnownSession.readable_by)

    async def writable(self, session_id: str, caller: Identity) -> KnownSession:
        """Returns the session if the caller may write to it. Raises ``SessionNotFound`` if not."""
        return await self._find(session_id, caller, KnownSession.writable_by)

    async def _find(
        self, session_id: str, caller: Identity, is_allowed: Callable[[KnownSession, Identity], bool]
    ) -> KnownSession:
        if not is_id(session_id):
            raise SessionNotFound
        session = await self.known.get(session_id)
        if session is None:
            session = await self.owner.session(session_id, caller)
            if session is None or session.deleted:
                raise SessionNotFound
            session = await self.known.remember(session)
        if not is_allowed(session, caller):
            raise SessionNotFound
        return session


@dataclass(frozen=True, slots=True)
class ArtifactAccess:
    artifacts: PostgresArtifactReader
    signer: LinkSigner

    async def readable(self, caller: Identity, artifact_id: str, session_id: str | None = None) -> StoredArtifact:
        """Returns an artifact that the caller may read, from this session if given. Raises ``ArtifactNotFound``."""
        artifact = await self.artifacts.get(artifact_id) if is_id(artifact_id) else None
        if artifact is None or not artifact.session.readable_by(caller):
            raise ArtifactNotFound
        if session_id is not None and artifact.session_id != session_id:
            raise ArtifactNotFound
        return artifact

    async def by_link(self, artifact_id: str, parameters: Parameters) -> StoredArtifact:
        """Returns the artifact that a link refers to. Raises ``AuthenticationFailed`` or ``ArtifactNotFound``."""
        self.signer.check(artifact_id, parameters, time.time())
        artifact = await self.artifacts.get(artifact_id)
        if artifact is None:
            raise ArtifactNotFound
        return artifact
