"""Ports: the database, the reader of tables, and other services."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from libs.contracts.api.artifacts import (
    ArtifactPassage,
    ArtifactSearchBody,
    ArtifactText,
    Sheet,
)
from libs.contracts.api.pages import Page
from libs.contracts.errors import ErrorInfo
from libs.contracts.identity import Identity
from libs.fairness import Capacity
from services.artifacts.domain.artifacts import KnownSession, StoredArtifact


class SessionOwner(Protocol):
    async def session(self, session_id: str, caller: Identity) -> KnownSession | None:
        """Returns None when the caller may not see it. Raises ``ServiceUnavailable``."""


class KnownSessions(Protocol):
    """Sessions that were asked for before, also deleted ones."""

    async def get(self, session_id: str) -> KnownSession | None: ...

    async def remember(self, session: KnownSession) -> KnownSession:
        """Returns the session as it is stored now: it may have been deleted meanwhile."""


class ArtifactReader(Protocol):
    """Reads stored artifacts, not deleted ones, without asking who may see them."""

    async def get(self, artifact_id: str) -> StoredArtifact | None: ...

    async def page(
        self, session_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredArtifact]:
        """Newest first, and the number of all."""

    async def all(self, session_id: str) -> list[StoredArtifact]:
        """Oldest first."""


class ArtifactWriter(Protocol):
    """Changes artifacts inside one transaction, which the caller commits. Returns False for one no longer pending."""

    async def progress(self, artifact_id: str, progress: int) -> bool: ...

    async def ready(self, artifact_id: str, metadata: Mapping[str, Any], *, lease: str | None = None) -> bool: ...

    async def failed(self, artifact_id: str, error: ErrorInfo, *, lease: str | None = None) -> bool: ...

    async def delete_session(self, session_id: str, company_id: str) -> list[str]:
        """Leaves tombstones of the session and its artifacts; returns the artifacts."""


@dataclass(frozen=True, slots=True)
class TableJob:
    """A claimed artifact whose tables are to be read; ``lease`` guards its end. ``attempt`` counts from 1."""

    artifact: StoredArtifact
    correlation_id: str
    lease: str
    attempt: int


class TableJobs(Protocol):
    """Artifacts whose tables wait to be read. Each method is a transaction of its own."""

    async def claim(self, capacity: Capacity, seconds: float) -> list[TableJob]:
        """Claims waiting artifacts; companies take turns."""

    async def renew(self, leases: Sequence[str], seconds: float) -> None: ...

    async def postpone(self, lease: str, seconds: float, *, counts: bool) -> None:
        """Releases the claim until then. ``counts``: as one of a few attempts."""


class TableReader(Protocol):
    """Safe to repeat and to cancel."""

    async def read(self, path: Path, content_type: str) -> list[Sheet] | None:
        """Returns None when the file holds no tables. Raises ``DocumentUnreadable``."""


class Documents(Protocol):
    """Documents in ingestion, which indexes them. Raises ``ServiceUnavailable``."""

    async def text(self, artifact_id: str, caller: Identity, *, offset: int, limit: int) -> ArtifactText: ...

    async def search(
        self, artifact_ids: Sequence[str], caller: Identity, body: ArtifactSearchBody
    ) -> list[ArtifactPassage]: ...
