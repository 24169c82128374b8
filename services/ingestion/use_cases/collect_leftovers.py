"""Remove bytes and texts that nothing refers to any more."""

import structlog

from libs.objects import ObjectStore
from services.ingestion.domain.file_ports import Leftovers
from services.ingestion.domain.files import blob_prefix

_AT_ONCE = 200
_UPLOAD_KEY_DAYS = 3
_log = structlog.get_logger(__name__)


async def collect_leftovers(leftovers: Leftovers, store: ObjectStore) -> int:
    """Returns how many blobs are gone. Safe to repeat and to break off at any point."""
    await leftovers.give_up()
    gone = 0
    while blob_ids := await leftovers.given_up(_AT_ONCE):
        for blob_id in blob_ids:
            async for entry in store.entries(blob_prefix(blob_id)):
                await store.delete(entry.key)
        await leftovers.forget(blob_ids)
        gone += len(blob_ids)
    if gone:
        _log.info("leftovers.collected", blobs=gone)
    await leftovers.forget_uploads(_UPLOAD_KEY_DAYS)
    return gone
