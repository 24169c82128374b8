"""Ports of knowledge bases and their ingestion: database and bus."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from libs.contracts.api.knowledge import KnowledgeBaseStatus, SearchFilters
from libs.contracts.api.pages import Page
from libs.fairness import Capacity
from services.ingestion.domain.engines import Engine, FileSelection
from services.ingestion.domain.files import UnparsedText
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
    ItemFailure,
    ItemKey,
    RunKey,
    RunOutcome,
    RunRef,
    Token,
)

Engines = Mapping[str, Engine]
"""The engines of this installation by name."""


class LiveIndexes(Protocol):
    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex | None:
        """The index to search, with its settings; None for an unknown knowledge base."""


class SearchableFiles(Protocol):
    """Committed files with their current names, tags, collections and statuses."""

    async def select(self, company_id: str, index_id: str, filters: SearchFilters) -> FileSelection:
        """Active files that match: of any of the collections, any of the files, with any of the tags."""

    async def names(self, company_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
        """Names of the active files among these; deleted and inactive ones are left out."""


class KnowledgeBaseReader(LiveIndexes, Protocol):
    """Committed knowledge bases. Deleted ones and those of other companies are not found."""

    async def get(self, company_id: str, knowledge_base_id: str) -> StoredKnowledgeBase | None: ...

    async def view(self, company_id: str, knowledge_base_id: str) -> KnowledgeBaseView | None: ...

    async def page(
        self,
        company_id: str,
        *,
        limit: int,
        offset: int,
        after: str | None = None,
        oldest_first: bool = False,
        cursor: str | None = None,
    ) -> Page[KnowledgeBaseView]:
        """Newest first unless told otherwise; of those ``after`` one of them, if it is given."""

    async def sources(
        self, company_id: str, knowledge_base_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Source] | None:
        """Its files in order of their ids."""

    async def seen(self, knowledge_base_id: str, user_id: str, status_version: int) -> bool:
        """Records the status that a user has seen; False when it changed since the last time."""


class KnowledgeBaseWriter(Protocol):
    """Changes of knowledge bases and runs inside one transaction, which the caller commits."""

    async def missing(
        self, company_id: str, collection_ids: Sequence[str], file_ids: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Collections and files among these that the company does not have."""

    async def add(self, knowledge_base: StoredKnowledgeBase) -> None: ...

    async def lock(self, company_id: str, knowledge_base_id: str) -> StoredKnowledgeBase | None:
        """Locks the row until the end of the transaction; None when it is being deleted."""

    async def save(self, knowledge_base: StoredKnowledgeBase) -> None:
        """Writes name, description, content and settings of a locked knowledge base."""

    async def set_status(self, knowledge_base_id: str, status: KnowledgeBaseStatus) -> None: ...

    async def start_run(self, knowledge_base: StoredKnowledgeBase, run: RunRef) -> RunRef:
        """Starts a run of a locked knowledge base into an index of its settings: the searched one, one being built,
        or a new one with the id in ``run``.

        An active run into the same index plans again and is returned; one into another index is superseded.
        """

    async def replace_index(self, knowledge_base: StoredKnowledgeBase, index_id: str, run: RunRef) -> RunRef | None:
        """Starts a run into a fresh index in place of ``index_id``, which is lost; an active run moves over to it.

        None when the index is no longer in use.
        """

    async def begin_deletion(self, knowledge_base_id: str, run: RunRef) -> None:
        """Hides it, ends its runs and marks its indexes for deletion; events refer to ``run``."""

    async def view(self, company_id: str, knowledge_base_id: str) -> KnowledgeBaseView | None:
        """As of this transaction."""


class WorkItems(Protocol):
    """Work items: lease, state, result. Each method is a transaction of its own."""

    async def claim(self, keys: Sequence[ItemKey], token: Token) -> list[ClaimedItem]:
        """Claims unleased, unfinished items among these."""

    async def renew(self, tokens: Sequence[Token]) -> None:
        """Renews leases; rows that are being changed at this moment are left to the next renewal."""

    async def advance(self, token: Token, chunks: Mapping[ItemKey, int], phase: str) -> None:
        """Records the phase of items and their numbers of chunks (0: not known yet)."""

    async def writable(self, index_ids: Sequence[str]) -> set[str]:
        """Indexes among these that are neither replaced nor deleted."""

    async def ingested(self, token: Token, chunks: Mapping[ItemKey, int]) -> set[ItemKey]:
        """Marks items as done; returns those whose file, knowledge base or index was deleted meanwhile.

        The caller removes their chunks from the index again.
        """

    async def removed(self, token: Token, keys: Sequence[ItemKey]) -> None:
        """Deletes items whose chunks were removed from the index."""

    async def failed(self, failures: Sequence[ItemFailure]) -> None:
        """Marks items as failed and emits an event for each."""

    async def release(self, token: Token, keys: Sequence[ItemKey], *, seconds: float, counts: bool) -> None:
        """Queues items again after ``seconds``; ``counts``: as one of few attempts."""


class Runs(Protocol):
    """Runs. Each method is a transaction of its own."""

    async def claim(self, key: RunKey, token: Token) -> ClaimedRun | None: ...

    async def plan(self, run: ClaimedRun, limit: int) -> bool:
        """Makes items of the next files; False when there were no more and the run has left planning."""

    async def release(self, run: ClaimedRun, *, seconds: float, counts: bool) -> None:
        """Queues the run again after ``seconds``; ``counts``: as one of few attempts."""

    async def fail(self, run: RunRef, reason: str, token: Token | None = None, *, cause: str) -> bool:
        """Ends an active run, that of the claim if a ``token`` is given, and emits its failure with the reason.

        ``cause``: see ``cause_of``.

        What is searched stays as it is. False when the run has ended, or is not that claim's any more.
        """

    async def complete(self, run_id: str) -> bool:
        """Moves a running run without unfinished items to finishing, under its lock; False when it stays."""

    async def end(self, run: ClaimedRun) -> RunOutcome | None:
        """Ends a finishing run under the locks of knowledge base and run, switches to its index if that is complete,
        and emits the outcome. None when the run is no longer finishing, or not this worker's.
        """

    async def publish_progress(self, run: RunRef) -> Progress | None:
        """Counts and emits progress, at most once a second for each run; None when it was published just now."""


class WorkQueue(Protocol):
    """Unfinished work that is to be sent to workers. Each method is a transaction of its own."""

    async def due(self, limit: int) -> list[Due]:
        """Takes unsent work and marks it as sent."""

    async def requeue(self, work: Sequence[Due]) -> None:
        """Marks work as unsent again."""

    async def reconcile(self, seconds: float) -> int:
        """Queues unleased work again that was sent ``seconds`` ago, and items of deleted files. Returns how many."""

    async def finished_runs(self) -> list[str]:
        """Running runs that have no unfinished item."""

    async def stuck(self, seconds: float) -> bool:
        """Whether unleased work waits and nothing has changed for that long."""

    async def unparsed(self, capacity: Capacity) -> list[UnparsedText]:
        """Unclaimed texts of files in collections; companies take turns."""


class IndexDeletion(Protocol):
    """Indexes pending deletion."""

    async def droppable(self) -> list[tuple[str, str]]:
        """Ids and engines of indexes whose grace period is over."""

    async def mark_for_deletion(self, index_id: str) -> None:
        """Stops writes to the index. Until it is dropped, it comes after all others that are pending."""

    async def dropped(self, index_id: str) -> None:
        """Records that the engine dropped it. The last index of a deleted knowledge base ends the deletion."""

    async def finalize_deletion(self) -> None:
        """Ends deletions of knowledge bases without indexes and emits their events."""


class WorkSender(Protocol):
    async def send(self, work: Sequence[Due]) -> list[Due]:
        """Sends work to the bus; returns what could not be sent."""
