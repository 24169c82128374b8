"""Remove the bytes of artifacts that are gone, or that never came to their end."""

from collections.abc import Sequence
from typing import Final

import structlog

from libs.objects import ObjectStore
from services.artifacts.domain.artifacts import artifact_prefix
from services.artifacts.domain.ports import Leftovers

_AT_ONCE: Final = 200
_KEY_DAYS: Final = 3
_log: Final = structlog.get_logger(__name__)


async def remove_deleted(leftovers: Leftovers, store: ObjectStore) -> int:
    """The bytes of deleted artifacts, as soon as they are; returns of how many."""
    gone = 0
    while artifact_ids := await leftovers.deleted(_AT_ONCE):
        await _empty(artifact_ids, store)
        await leftovers.emptied(artifact_ids)
        gone += len(artifact_ids)
    return gone


async def collect_leftovers(leftovers: Leftovers, store: ObjectStore) -> int:
    """Returns of how many artifacts nothing is left. Safe to repeat and to break off at any point."""
    await remove_deleted(leftovers, store)
    await leftovers.give_up()
    gone = 0
    while artifact_ids := await leftovers.given_up(_AT_ONCE):
        await _empty(artifact_ids, store)
        await leftovers.forget(artifact_ids)
        gone += len(artifact_ids)
    if gone:
        _log.info("leftovers.collected", artifacts=gone)
    await leftovers.forget_keys(_KEY_DAYS)
    return gone


async def _empty(artifact_ids: Sequence[str], store: ObjectStore) -> None:
    for artifact_id in artifact_ids:
        async for entry in store.entries(artifact_prefix(artifact_id)):
            await store.delete(entry.key)
