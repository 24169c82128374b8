"""Removes bytes and texts that no file refers to."""

from dataclasses import dataclass
from typing import Final

import structlog

from libs.objects import ObjectStore, delete_all
from services.ingestion.domain.files import blob_prefix
from services.ingestion.domain.ports.files import UnusedBlobs

_BATCH: Final = 200
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CollectGarbage:
    blobs: UnusedBlobs
    store: ObjectStore

    async def __call__(self) -> int:
        """Returns how many blobs were removed. Safe to repeat and to break off at any point."""
        await self.blobs.abandon_unused()
        removed = 0
        while blob_ids := await self.blobs.abandoned(_BATCH):
            for blob_id in blob_ids:
                await delete_all(self.store, blob_prefix(blob_id))
            await self.blobs.delete(blob_ids)
            removed += len(blob_ids)
        if removed:
            _log.info("garbage.collected", blobs=removed)
        return removed
