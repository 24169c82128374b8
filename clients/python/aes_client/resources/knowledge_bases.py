"""Knowledge bases: searchable documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

from aes_client import operations
from aes_client.flows import Call, Deadline, Emit, Emitting, Flow, Pause
from aes_client.models import KnowledgeBase
from aes_client.requests import Request, one, path_of
from aes_client.resource import R, iteration, operation

_SHORTEST_LOOK, _LONGEST_LOOK = 0.25, 2.0
# Polling takes at most a fifth of the time.
_SHARE = 4


class KnowledgeBases(operations.KnowledgeBases[R]):
    """The operations of ``client.knowledge_bases``."""

    @iteration
    def progress(self, knowledge_base_id: str, *, timeout: float | None = 3600) -> Emitting[KnowledgeBase]:
        """Yields the knowledge base each time its ingestion progresses, until its status is ``completed`` or
        ``failed``.

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
        """Waits until the ingestion ends, and returns the knowledge base.

        ``failed_datasources`` and ``datasource_errors`` list the documents that couldn't be ingested. Raises
        ``TimeLimitReached`` after ``timeout`` seconds.
        """

        def told(seen: KnowledgeBase) -> Flow[None]:
            if on_progress is not None:
                yield Call(on_progress, (seen,))

        return self._ingested(knowledge_base_id, Deadline(timeout), told)

    def _ingested(
        self, knowledge_base_id: str, deadline: Deadline, tell: Callable[[KnowledgeBase], Generator[Any, Any, None]]
    ) -> Generator[Any, Any, KnowledgeBase]:
        """Polls the knowledge base until its ingestion ends. Passes it to ``tell`` after each change, and returns it.

        The interval grows, because responses grow with the number of documents. Each change resets it.
        """
        path = path_of("/knowledge-bases/{knowledge_base_id}/", knowledge_base_id)
        seen, pause = None, _SHORTEST_LOOK
        while True:
            asked = time.monotonic()
            base = yield from self._send(Request("GET", path, one(KnowledgeBase)))
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
