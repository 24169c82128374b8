"""Find out whose session something is about, and whether the caller may use it."""

from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from services.artifacts.domain.artifacts import ArtifactNotFound, KnownSession, SessionNotFound, StoredArtifact
from services.artifacts.domain.ports import ArtifactReader, KnownSessions, SessionOwner


class SessionAccess:
    """A session is asked for once: its owner never changes, and its end is told by an event."""

    def __init__(self, known: KnownSessions, owner: SessionOwner) -> None:
        self._known = known
        self._owner = owner

    async def readable(self, session_id: str, caller: Identity) -> KnownSession:
        """Raises ``SessionNotFound``."""
        session = await self._find(session_id, caller)
        if not session.readable_by(caller):
            raise SessionNotFound
        return session

    async def writable(self, session_id: str, caller: Identity) -> KnownSession:
        """Raises ``SessionNotFound``."""
        session = await self._find(session_id, caller)
        if not session.writable_by(caller):
            raise SessionNotFound
        return session

    async def _find(self, session_id: str, caller: Identity) -> KnownSession:
        if not is_id(session_id):
            raise SessionNotFound
        session = await self._known.get(session_id)
        if session is None:
            session = await self._owner.session(session_id, caller)
            if session is None or session.deleted:
                raise SessionNotFound
            session = await self._known.remember(session)
        return session


async def visible_artifact(
    artifacts: ArtifactReader, caller: Identity, artifact_id: str, session_id: str | None = None
) -> StoredArtifact:
    """The artifact, of that session if one is given. Raises ``ArtifactNotFound``."""
    artifact = await artifacts.get(artifact_id) if is_id(artifact_id) else None
    if artifact is None or not artifact.session.readable_by(caller):
        raise ArtifactNotFound
    if session_id is not None and artifact.session_id != session_id:
        raise ArtifactNotFound
    return artifact
