"""Removes the bytes of deleted artifacts and of uploads that never ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from libs.objects import ObjectStore, delete_all
from services.artifacts.domain.artifacts import artifact_prefix
from services.artifacts.domain.ports import Garbage

_AT_ONCE: Final = 200
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RemoveDeletedBytes:
    """Removes the bytes of deleted artifacts at once; returns of how many."""

    garbage: Garbage
    store: ObjectStore

    async def __call__(self) -> int:
        removed = 0
        while artifact_ids := await self.garbage.deleted(_AT_ONCE):
            await _empty(artifact_ids, self.store)
            await self.garbage.emptied(artifact_ids)
            removed += len(artifact_ids)
        return removed


@dataclass(frozen=True, slots=True)
class CollectGarbage:
    """Removes what nobody writes any more. Can be repeated and cut off anywhere."""

    garbage: Garbage
    store: ObjectStore

    async def __call__(self) -> int:
        """Returns how many artifacts are gone for good."""
        await RemoveDeletedBytes(self.garbage, self.store)()
        await self.garbage.abandon_uploads()
        gone = 0
        while artifact_ids := await self.garbage.unreferenced(_AT_ONCE):
            await _empty(artifact_ids, self.store)
            await self.garbage.forget(artifact_ids)
            gone += len(artifact_ids)
        if gone:
            _log.info("garbage.collected", artifacts=gone)
        return gone


async def _empty(artifact_ids: Sequence[str], store: ObjectStore) -> None:
    for artifact_id in artifact_ids:
        await delete_all(store, artifact_prefix(artifact_id))
