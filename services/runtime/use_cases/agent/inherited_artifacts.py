"""Finds files in the sessions that a session was forked from, since its history refers to them."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from libs.contracts.errors import NotFound
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import Artifact, ArtifactText, Sheet
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import Citation
from services.runtime.domain.ports import SessionLineage
from services.runtime.use_cases.engine.commits import until_available

T = TypeVar("T")
_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class InheritedArtifacts:
    """Wraps another SessionArtifacts and also finds the files of a fork's source sessions."""

    artifacts: SessionArtifacts
    sessions: SessionLineage

    async def get(self, session_id: str, artifact_id: str, caller: Identity) -> Artifact:
        return await self._first(session_id, lambda session: self.artifacts.get(session, artifact_id, caller))

    async def by_url(self, session_id: str, url: str, caller: Identity) -> Artifact:
        return await self._first(session_id, lambda session: self.artifacts.by_url(session, url, caller))

    async def all(self, session_id: str, caller: Identity) -> list[Artifact]:
        found = await self._each(session_id, lambda session: self.artifacts.all(session, caller))
        return [artifact for of_session in found for artifact in of_session][:_MOST]

    async def text(
        self, session_id: str, artifact_id: str, caller: Identity, *, offset: int, limit: int
    ) -> ArtifactText:
        return await self._first(
            session_id, lambda session: self.artifacts.text(session, artifact_id, caller, offset=offset, limit=limit)
        )

    async def search(
        self, session_id: str, query: str, caller: Identity, *, artifact_ids: Sequence[str] | None, top_k: int
    ) -> tuple[Citation, ...]:
        def ask(session: str) -> Awaitable[tuple[Citation, ...]]:
            return self.artifacts.search(session, query, caller, artifact_ids=artifact_ids, top_k=top_k)

        found = await self._each(session_id, ask)
        if len(found) == 1:
            return found[0]
        best = sorted((passage for of_session in found for passage in of_session), key=lambda each: -(each.score or 0))
        return tuple(best[:top_k])

    async def tables(self, session_id: str, artifact_id: str, caller: Identity, *, rows: int) -> list[Sheet]:
        return await self._first(
            session_id, lambda session: self.artifacts.tables(session, artifact_id, caller, rows=rows)
        )

    async def content(self, session_id: str, artifact_id: str, caller: Identity) -> bytes:
        return await self._first(session_id, lambda session: self.artifacts.content(session, artifact_id, caller))

    async def save(self, session_id: str, artifact_id: str, caller: Identity, path: Path) -> None:
        await self._first(session_id, lambda session: self.artifacts.save(session, artifact_id, caller, path))

    async def create(self, session_id: str, caller: Identity, *, name: str, key: str, content: bytes) -> Artifact:
        return await self.artifacts.create(session_id, caller, name=name, key=key, content=content)

    async def _first(self, session_id: str, ask: Callable[[str], Awaitable[T]]) -> T:
        """Returns the answer of the nearest session that has one. If none does, raises the session's own NotFound."""
        try:
            return await ask(session_id)
        except NotFound:
            for each in await self._lineage(session_id):
                try:
                    return await ask(each)
                except NotFound:
                    continue
            raise

    async def _each(self, session_id: str, ask: Callable[[str], Awaitable[T]]) -> list[T]:
        """Returns the answers of the session and of its source sessions that still exist."""
        answers = [await ask(session_id)]
        for each in await self._lineage(session_id):
            with suppress(NotFound):
                answers.append(await ask(each))
        return answers

    async def _lineage(self, session_id: str) -> Sequence[str]:
        return await until_available(lambda: self.sessions.lineage(session_id))
