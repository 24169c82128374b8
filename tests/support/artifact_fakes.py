"""Session artifacts in memory: those of one owner, in the sessions that they were put in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from libs.contracts.errors import Conflict, NotFound, ServiceUnavailable, UnsupportedMediaType
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import Artifact, ArtifactText, Sheet
from services.runtime.domain.conversation import Citation

_STRATEGIES = {
    ".png": "vision",
    ".jpg": "vision",
    ".bmp": "vision",
    ".csv": "structural_parsing",
    ".xlsx": "structural_parsing",
    ".xls": "structural_parsing",
    ".json": "structural_parsing",
}
_WHEN = "2030-01-01T00:00:00.000000Z"
_TYPES = {".png": "image/png", ".bmp": "image/bmp", ".csv": "text/csv", ".txt": "text/plain"}


@dataclass
class Stored:
    session_id: str
    facts: Artifact
    content: bytes = b""
    tables: tuple[Sheet, ...] = ()
    key: str | None = None
    """The key of a generated artifact."""


@dataclass
class FakeArtifacts:
    """A SessionArtifacts. Passages of a document are its lines that share a word with the query.

    ``owner`` is the only user that finds anything; while ``down`` nobody does.
    """

    owner: str | None = None
    down: bool = False
    stored: dict[str, Stored] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def put(
        self,
        name: str,
        content: bytes | str = b"",
        *,
        session_id: str = "session",
        tables: Sequence[Sheet] = (),
        status: str = "ready",
        problem: str | None = None,
        size: int | None = None,
    ) -> Artifact:
        raw = content.encode() if isinstance(content, str) else content
        ending = Path(name).suffix
        strategy = _STRATEGIES.get(ending, "rag_indexing")
        artifact_id = new_id()
        made = Artifact.model_validate(
            {
                "artifact_id": artifact_id,
                "session_id": session_id,
                "name": name,
                "content_type": _TYPES.get(ending, "application/octet-stream"),
                "size": len(raw) if size is None else size,
                "sha256": "0",
                "origin": "uploaded",
                "processing_strategy": strategy,
                "processing_status": status,
                "error": None if problem is None else {"type": "validation_error", "message": problem},
                "metadata": {"characters": len(raw.decode())} if strategy == "rag_indexing" else {},
                "created_at": _WHEN,
                "updated_at": _WHEN,
                "url": f"https://files.example/{artifact_id}?signature=old",
                "url_expires_at": _WHEN,
            }
        )
        self.stored[made.artifact_id] = Stored(session_id, made, raw, tuple(tables))
        return made

    def url(self, artifact: Artifact) -> str:
        return artifact.url

    def processed(self, artifact: Artifact, status: str) -> None:
        stored = self.stored[artifact.artifact_id]
        stored.facts = stored.facts.model_copy(update={"processing_status": status})

    async def get(self, session_id: str, artifact_id: str, caller: Identity) -> Artifact:
        return self._find("get", session_id, artifact_id, caller).facts

    async def by_url(self, session_id: str, url: str, caller: Identity) -> Artifact:
        artifact_id = url.removeprefix("https://files.example/").partition("?")[0]
        return self._find("by_url", session_id, artifact_id, caller).facts

    async def all(self, session_id: str, caller: Identity) -> list[Artifact]:
        return [each.facts for each in reversed(self.stored.values()) if each.session_id == session_id]

    async def text(
        self, session_id: str, artifact_id: str, caller: Identity, *, offset: int, limit: int
    ) -> ArtifactText:
        stored = self._ready("text", session_id, artifact_id, caller)
        if stored.facts.processing_strategy != "rag_indexing":
            raise UnsupportedMediaType("this is no document")
        text = stored.content.decode()
        shown = text[offset : offset + limit]
        return ArtifactText(artifact_id=artifact_id, text=shown, offset=offset, characters=len(text))

    async def search(
        self, session_id: str, query: str, caller: Identity, *, artifact_ids: Sequence[str] | None, top_k: int
    ) -> tuple[Citation, ...]:
        words = set(query.lower().strip("?").split())
        found = [
            Citation(line, 0.5, file_name=each.facts.name, artifact_id=each.facts.artifact_id)
            for each in self.stored.values()
            if each.facts.processing_strategy == "rag_indexing" and each.session_id == session_id
            if artifact_ids is None or each.facts.artifact_id in artifact_ids
            for line in each.content.decode().splitlines()
            if words & set(line.lower().strip(".").split())
        ]
        return tuple(found[:top_k])

    async def tables(self, session_id: str, artifact_id: str, caller: Identity, *, rows: int) -> list[Sheet]:
        stored = self._ready("tables", session_id, artifact_id, caller)
        if stored.facts.processing_strategy != "structural_parsing":
            raise UnsupportedMediaType("this is no table")
        return [table.model_copy(update={"rows": table.rows[:rows]}) for table in stored.tables]

    async def content(self, session_id: str, artifact_id: str, caller: Identity) -> bytes:
        return self._find("content", session_id, artifact_id, caller).content

    async def save(self, session_id: str, artifact_id: str, caller: Identity, path: Path) -> None:
        await asyncio.to_thread(path.write_bytes, self._find("save", session_id, artifact_id, caller).content)

    async def create(self, session_id: str, caller: Identity, *, name: str, key: str, content: bytes) -> Artifact:
        self._answer("create")
        same = (each.facts for each in self.stored.values() if (each.session_id, each.key) == (session_id, key))
        known = next(same, None)
        if known is not None:
            return known
        made = self.put(name, session_id=session_id, size=len(content))
        self.stored[made.artifact_id].content, self.stored[made.artifact_id].key = content, key
        return made

    def generated(self) -> list[Stored]:
        return [each for each in self.stored.values() if each.key is not None]

    def _answer(self, what: str) -> None:
        if self.down:
            raise ServiceUnavailable("The artifacts service cannot be reached.")
        self.asked.append(what)

    def _find(self, what: str, session_id: str, artifact_id: str, caller: Identity) -> Stored:
        self._answer(what)
        stored = self.stored.get(artifact_id)
        if stored is None or stored.session_id != session_id or self.owner not in (None, caller.user_id):
            raise NotFound("There is no artifact with this ID.")
        return stored

    def _ready(self, what: str, session_id: str, artifact_id: str, caller: Identity) -> Stored:
        stored = self._find(what, session_id, artifact_id, caller)
        if stored.facts.processing_status != "ready":
            raise Conflict("the artifact is not processed")
        return stored
