"""What goes on beside the streams: announcing work, reconciling, keeping leases, parsing ahead, care of indexes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from services.ingestion.domain.ports.knowledge_bases import (
    Engines,
    IndexDeletion,
    Runs,
    WorkItems,
    WorkQueue,
    WorkSender,
)
from services.ingestion.domain.runs import Token
from services.ingestion.use_cases.dispatch_work import dispatch_work, reconcile_work
from services.ingestion.use_cases.document_loader import DocumentLoader
from services.ingestion.use_cases.drop_indexes import drop_indexes
from services.ingestion.use_cases.inspect_indexes import DocumentInspection, IndexInspection

_ANNOUNCE_SECONDS: Final = 0.2
_DROP_SECONDS: Final = 0.5
_PARSE_SECONDS: Final = 1.0
_PARSED_AT_ONCE: Final = 8


class WorkUpkeep:
    """Each method runs until it is cancelled; any number of processes may do the same at once."""

    def __init__(
        self,
        work_queue: WorkQueue,
        sender: WorkSender,
        runs: Runs,
        items: WorkItems,
        loading: DocumentLoader,
        claims: Callable[[], Sequence[Token]],
    ) -> None:
        self._work_queue = work_queue
        self._sender = sender
        self._runs = runs
        self._items = items
        self._loading = loading
        self._claims = claims

    async def announce(self) -> None:
        while True:
            if not await dispatch_work(self._work_queue, self._sender):
                await asyncio.sleep(_ANNOUNCE_SECONDS)

    async def reconcile(self, seconds: float) -> None:
        while True:
            await reconcile_work(self._work_queue, self._runs, seconds)
            await asyncio.sleep(seconds)

    async def keep(self, seconds: float) -> None:
        while True:
            if claims := self._claims():
                await self._items.keep(claims)
            await self._loading.keep()
            await asyncio.sleep(seconds)

    async def parse_texts(self) -> None:
        """Files of collections are parsed even if no knowledge base wants them, when there is nothing else to do."""
        while True:
            found = [] if self._claims() else await self._work_queue.unparsed(_PARSED_AT_ONCE)
            await asyncio.gather(*(self._loading.parse(key, name) for key, name in found))
            if not found:
                await asyncio.sleep(_PARSE_SECONDS)


async def keep_dropping(index_deletion: IndexDeletion, engines: Engines) -> None:
    """Until cancelled."""
    while True:
        await drop_indexes(index_deletion, engines)
        await asyncio.sleep(_DROP_SECONDS)


async def keep_inspecting(indexes: IndexInspection, documents: DocumentInspection, seconds: float) -> None:
    """Until cancelled."""
    while True:
        await indexes.inspect()
        await documents.inspect()
        await asyncio.sleep(seconds)
