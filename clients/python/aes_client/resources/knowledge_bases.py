"""Knowledge bases: searchable documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

from aes_client import operations
from aes_client.flows import Call, Deadline, Emit, Emitting, Flow, Pause
from aes_client.models import KnowledgeBase
from aes_client.resource import R, iteration, operation

_SHORTEST_LOOK, _LONGEST_LOOK = 0.25, 2.0
# Polling takes at most a fifth of the time.
_SHARE = 4


class KnowledgeBases(operations.KnowledgeBases[R]):
    """The operations of ``client.knowledge_bases``."""

    @iteration
    def progress(self, knowledge_base_id: str, *, timeout: float | None = 3600) -> Emitting[KnowledgeBase]:
        """Yields the knowledge base after each change, until its status is ``completed`` or ``failed``.

        Raises ``TimeLimitReached`` after ``timeout`` seconds.
        """
        yield from self._ingested(knowledge_base_id, timeout, Emit)

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
        step_of = None if on_progress is None else lambda seen: Call(on_progress, (seen,))
        return self._ingested(knowledge_base_id, timeout, step_of)

    def _ingested(
        self, knowledge_base_id: str, timeout: float | None, step_of: Callable[[KnowledgeBase], Any] | None
    ) -> Generator[Any, Any, KnowledgeBase]:
        """Polls the knowledge base until its ingestion ends. Yields the step ``step_of(base)`` after each change.

        The interval grows until the next change, because responses grow with the number of documents.
        """
        deadline, seen, pause = Deadline(timeout), None, _SHORTEST_LOOK
        while True:
            asked = time.monotonic()
            base = yield from self._send(KnowledgeBases.get.request(self, knowledge_base_id))
            took = time.monotonic() - asked
            mark = base.status, base.progress, base.datasource_count, base.datasource_errors, base.processing_metadata
            if mark != seen:
                if step_of is not None:
                    yield step_of(base)
                seen, pause = mark, _SHORTEST_LOOK
            if base.status in ("completed", "failed"):
                return base
            deadline.check(f"The ingestion of {base.name}")
            yield Pause(max(pause, took * _SHARE))
            pause = min(pause * 1.5, _LONGEST_LOOK)
