"""Remove bytes and texts that nothing refers to any more."""

import structlog

from libs.objects import ObjectStore
from services.ingestion.domain.files import blob_prefix
from services.ingestion.domain.ports.files import UnusedBlobs

_AT_ONCE = 200
_UPLOAD_KEY_DAYS = 3
_log = structlog.get_logger(__name__)


async def collect_garbage(unused_blobs: UnusedBlobs, store: ObjectStore) -> int:
    """Returns how many blobs are gone. Safe to repeat and to break off at any point."""
    await unused_blobs.give_up()
    gone = 0
    while blob_ids := await unused_blobs.given_up(_AT_ONCE):
        for blob_id in blob_ids:
            async for entry in store.entries(blob_prefix(blob_id)):
                await store.delete(entry.key)
        await unused_blobs.forget(blob_ids)
        gone += len(blob_ids)
    if gone:
        _log.info("leftovers.collected", blobs=gone)
    await unused_blobs.delete_upload_keys(_UPLOAD_KEY_DAYS)
    return gone
