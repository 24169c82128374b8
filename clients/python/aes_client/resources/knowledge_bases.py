"""Knowledge bases: documents made searchable."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from aes_client.flows import Call, Deadline, Emit, Emitting, Flow, Pause
from aes_client.models import AvailableCollections, DatasourceSnapshot, KnowledgeBase, KnowledgeBaseState, SearchReply
from aes_client.requests import Request, nothing, one, path_of
from aes_client.resource import R, Resource, iteration, operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client import params

_SHORTEST_LOOK, _LONGEST_LOOK = 0.25, 2.0
# A look takes a fifth of the time at most.
_SHARE = 4


class KnowledgeBases(Resource[R]):
    """``client.knowledge_bases``."""

    @operation
    def create(self, **settings: Unpack[params.CreateKnowledgeBaseBody]) -> Request[KnowledgeBase]:
        """Makes a knowledge base of files and collections. Its first ingestion begins, unless ``ingest=False``."""
        return Request("POST", "/knowledge-bases/", one(KnowledgeBase), body=dict(settings))

    @operation
    def get(self, knowledge_base_id: str) -> Request[KnowledgeBase]:
        return Request("GET", _path(knowledge_base_id), one(KnowledgeBase))

    @iteration
    def list(self) -> Emitting[KnowledgeBase]:
        """Yields knowledge bases, newest first."""
        yield from self._pages("/knowledge-bases/", "knowledge_bases", KnowledgeBase, {})

    @operation
    def available_collections(self) -> Request[AvailableCollections]:
        """Returns all collections that a knowledge base can be made from."""
        return Request("GET", "/knowledge-bases/available-collections/", one(AvailableCollections))

    @operation
    def update(
        self, knowledge_base_id: str, **changes: Unpack[params.UpdateKnowledgeBaseBody]
    ) -> Request[KnowledgeBase]:
        """Changes what is given. Other content and settings take effect with the next ingestion."""
        return Request("PATCH", _path(knowledge_base_id), one(KnowledgeBase), body=dict(changes))

    @operation
    def ingest(self, knowledge_base_id: str) -> Request[KnowledgeBase]:
        """Takes up what is new, changed or failed, and drops what was taken out."""
        return Request("POST", f"{_path(knowledge_base_id)}ingest/", one(KnowledgeBase), body={})

    @operation
    def check_status(self, knowledge_base_id: str) -> Request[KnowledgeBaseState]:
        return Request("GET", f"{_path(knowledge_base_id)}check_status/", one(KnowledgeBaseState))

    @iteration
    def progress(self, knowledge_base_id: str, *, timeout: float | None = 3600) -> Emitting[KnowledgeBase]:
        """Yields the knowledge base whenever its ingestion has come further, to ``completed`` or ``failed``.

        Raises ``TimeLimitReached`` after ``timeout`` seconds.
        """

        def emitted(seen: KnowledgeBase) -> Generator[Any, Any, None]:
            yield Emit(seen)

        yield from self._ingested(knowledge_base_id, Deadline(timeout), emitted)

    @operation
    def wait(
        self,
        knowledge_base_id: str,
        *,
        timeout: float | None = 3600,
        on_progress: Callable[[KnowledgeBase], Any] | None = None,
    ) -> Flow[KnowledgeBase]:
        """Returns the knowledge base once its ingestion has ended; ``failed_datasources`` and ``datasource_errors`` say
        what couldn't be ingested. Raises ``TimeLimitReached`` after ``timeout`` seconds.
        """

        def told(seen: KnowledgeBase) -> Flow[None]:
            if on_progress is not None:
                yield Call(on_progress, (seen,))

        return self._ingested(knowledge_base_id, Deadline(timeout), told)

    @operation
    def search(self, knowledge_base_id: str, **search: Unpack[params.SearchBody]) -> Request[SearchReply]:
        """Returns passages, best first."""
        return Request("POST", f"{_path(knowledge_base_id)}search/", one(SearchReply), body=dict(search))

    @iteration
    def datasources(self, knowledge_base_id: str) -> Emitting[DatasourceSnapshot]:
        """Yields the documents, each with how far it is."""
        yield from self._pages(f"{_path(knowledge_base_id)}datasources/", "datasources", DatasourceSnapshot, {})

    @operation
    def delete(self, knowledge_base_id: str) -> Request[None]:
        """Deletes a knowledge base and its index. Collections and files remain."""
        return Request("DELETE", _path(knowledge_base_id), nothing)

    def _ingested(
        self, knowledge_base_id: str, deadline: Deadline, tell: Callable[[KnowledgeBase], Generator[Any, Any, None]]
    ) -> Generator[Any, Any, KnowledgeBase]:
        """Looks at growing intervals, and begins anew with each change; the answer grows with the documents."""
        seen, pause = None, _SHORTEST_LOOK
        while True:
            asked = time.monotonic()
            base = yield from self._send(Request("GET", _path(knowledge_base_id), one(KnowledgeBase)))
            took = time.monotonic() - asked
            mark = base.status, base.progress, base.datasource_count, base.datasource_errors, base.processing_metadata
            if mark != seen:
                yield from tell(base)
                seen, pause = mark, _SHORTEST_LOOK
            if base.status in ("completed", "failed"):
                return base
            deadline.check(f"The ingestion of {base.name}")
            yield Pause(max(pause, took * _SHARE))
            pause = min(pause * 1.5, _LONGEST_LOOK)


def _path(knowledge_base_id: str) -> str:
    return path_of("/knowledge-bases/{base}/", base=knowledge_base_id)
