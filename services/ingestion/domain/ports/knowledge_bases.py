"""What knowledge bases and their ingestion need from the database and the bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from libs.contracts.api.knowledge import KnowledgeBaseStatus
from services.ingestion.domain.engines import Engine
from services.ingestion.domain.files import TextKey
from services.ingestion.domain.knowledge_bases import (
    KnowledgeBaseView,
    LiveIndex,
    Progress,
    Source,
    StoredKnowledgeBase,
)
from services.ingestion.domain.runs import (
    ClaimedItem,
    ClaimedRun,
    Due,
    Ending,
    ItemFailure,
    ItemKey,
    RunKey,
    RunRef,
    Token,
)

Engines = Mapping[str, Engine]
"""The engines of this installation by name."""


class KnowledgeBaseReader(Protocol):
    """Knowledge bases as last committed; deleted ones and those of other companies are not there."""

    async def get(self, company_id: str, knowledge_base_id: str) -> StoredKnowledgeBase | None: ...

    async def view(self, company_id: str, knowledge_base_id: str) -> KnowledgeBaseView | None: ...

    async def page(self, company_id: str, *, limit: int, offset: int) -> tuple[list[KnowledgeBaseView], int]:
        """A page, newest first, and how many there are in all."""
        ...

    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex | None:
        """What is to be searched, with the settings it was made with; None when there is no such knowledge base."""
        ...

    async def sources(
        self, company_id: str, knowledge_base_id: str, *, limit: int, offset: int
    ) -> tuple[list[Source], int] | None:
        """A page of its files in order of their ids, and how many there are in all."""
        ...

    async def seen(self, knowledge_base_id: str, user_id: str, status_version: int) -> bool:
        """Note what the caller has seen of the status; False when it has changed since the last time."""
        ...


class KnowledgeBaseWriter(Protocol):
    """Changes of knowledge bases and runs inside one transaction, which the caller commits."""

    async def missing(
        self, company_id: str, collection_ids: Sequence[str], file_ids: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Those of the collections and of the files that the company does not have."""
        ...

    async def add(self, knowledge_base: StoredKnowledgeBase) -> None: ...

    async def lock(self, company_id: str, knowledge_base_id: str) -> StoredKnowledgeBase | None:
        """Kept from every other writer until the end of the transaction; None when it is being deleted."""
        ...

    async def save(self, knowledge_base: StoredKnowledgeBase) -> None:
        """Name, description, content and settings of a locked knowledge base."""
        ...

    async def set_status(self, knowledge_base_id: str, status: KnowledgeBaseStatus) -> None: ...

    async def start_run(self, knowledge_base: StoredKnowledgeBase, run: RunRef) -> RunRef:
        """Begin to ingest a locked knowledge base into an index of its settings: the searched one, one that is being
        built, or a new one, whose id is the one in ``run``.

        A run that goes on already with the same index begins to plan again and is returned; one with another index
        is superseded.
        """
        ...

    async def replace_index(self, knowledge_base: StoredKnowledgeBase, index_id: str, run: RunRef) -> RunRef | None:
        """As ``start_run``, into a fresh index; from now on nobody searches or writes this one, which is lost.

        A run that goes on with it goes on with the fresh one. None when the index is not in use any more.
        """
        ...

    async def begin_deletion(self, knowledge_base_id: str, run: RunRef) -> None:
        """Nobody finds it any more, its runs end, its indexes are to be dropped; events refer to ``run``."""
        ...

    async def view(self, company_id: str, knowledge_base_id: str) -> KnowledgeBaseView | None:
        """As it stands in this transaction."""
        ...


class WorkItems(Protocol):
    """Files on their way into and out of indexes. Each method is a transaction of its own."""

    async def claim(self, keys: Sequence[ItemKey], token: Token) -> list[ClaimedItem]:
        """Take those that nobody else is at; the others are done, gone, or somebody's."""
        ...

    async def renew(self, tokens: Sequence[Token]) -> None:
        """Renew the leases of these claims."""
        ...

    async def advance(self, token: Token, chunks: Mapping[ItemKey, int], phase: str) -> None:
        """Note the phase that items are in now and how many chunks they have (0: not known yet)."""
        ...

    async def writable(self, index_ids: Sequence[str]) -> set[str]:
        """Those of the indexes that are neither replaced nor deleted."""
        ...

    async def ingested(self, token: Token, chunks: Mapping[ItemKey, int]) -> set[ItemKey]:
        """Mark items as done; returns those that must be taken out of the index again.

        These are no longer wanted: file, knowledge base or index were deleted meanwhile.
        """
        ...

    async def removed(self, token: Token, keys: Sequence[ItemKey]) -> None:
        """Their chunks are gone from the index."""
        ...

    async def failed(self, failures: Sequence[ItemFailure]) -> None:
        """Mark items as failed and tell of it."""
        ...

    async def release(self, token: Token, keys: Sequence[ItemKey], *, seconds: float, counts: bool) -> None:
        """Let them be done again after that long; ``counts``: against the number of attempts."""
        ...


class Runs(Protocol):
    """Runs as a whole. Each method is a transaction of its own."""

    async def claim(self, key: RunKey, token: Token) -> ClaimedRun | None: ...

    async def plan(self, run: ClaimedRun, limit: int) -> bool:
        """Turn the next files into items; False when there are no more and the run has left planning."""
        ...

    async def release(self, run: ClaimedRun, *, seconds: float) -> None: ...

    async def complete(self, run_id: str) -> bool:
        """Under the run's lock: whether its last item is done, so that it is to be finished now."""
        ...

    async def end(self, run: ClaimedRun) -> Ending | None:
        """Under the locks of knowledge base and run: end it, switch to its index if that is complete, and tell of it.

        None when the run is not finishing any more, or not this worker's.
        """
        ...

    async def publish_progress(self, run: RunRef) -> Progress | None:
        """At most once a second for each run: count and tell; None when it was told just now."""
        ...


class WorkQueue(Protocol):
    """What has to be announced, taken up again, or cleared away. Each method is a transaction of its own."""

    async def due(self, limit: int) -> list[Due]:
        """Work that nobody has been told of yet; it is now marked as announced."""
        ...

    async def requeue(self, work: Sequence[Due]) -> None:
        """It could not be announced after all."""
        ...

    async def reconcile(self, seconds: float) -> int:
        """Make due again what was announced that long ago and is in nobody's hands.

        Also finds items of files that were deleted. Returns how much became due.
        """
        ...

    async def finished_runs(self) -> list[str]:
        """Runs without an unfinished item that are not known to be done."""
        ...

    async def stuck(self, seconds: float) -> bool:
        """Whether work waits, in nobody's hands, and nothing at all has moved for that long."""
        ...

    async def unparsed(self, limit: int) -> list[tuple[TextKey, str]]:
        """Texts of files in collections that nobody has begun to make, each with the name of such a file."""
        ...


class IndexDeletion(Protocol):
    """Indexes that nobody wants any more."""

    async def droppable(self) -> list[tuple[str, str]]:
        """Ids and engines of indexes whose grace is over."""
        ...

    async def mark_for_deletion(self, index_id: str) -> None:
        """From now on nothing is written to it."""
        ...

    async def dropped(self, index_id: str) -> None:
        """Its content is gone. The last index of a deleted knowledge base ends the deletion and tells of it."""
        ...

    async def finalize_deletion(self) -> None:
        """End deletions of knowledge bases that never had an index."""
        ...


class WorkSender(Protocol):
    async def send(self, work: Sequence[Due]) -> list[Due]:
        """Announce work on the bus; returns what could not be."""
        ...
