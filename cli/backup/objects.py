"""Objects from a store into a directory and back; what is there already is not copied again."""

from contextlib import aclosing

from deploy.local.errors import StackError
from libs.objects import ObjectMissing, ObjectStore, StoreUnavailable, open_store


async def copy_all(source_url: str, target_url: str) -> tuple[int, int]:
    """Returns how many objects the source has, and their bytes. Raises StackError."""
    try:
        return await _copy_all(open_store(source_url), open_store(target_url))
    except StoreUnavailable as problem:
        raise StackError(f"Objects: {problem}") from problem


async def _copy_all(source: ObjectStore, target: ObjectStore) -> tuple[int, int]:
    await target.start()
    there = {entry.key: entry async for entry in target.entries()}
    count = size = 0
    async for entry in source.entries():
        known = there.get(entry.key)
        if known is None or known.size != entry.size or known.written_at < entry.written_at:
            try:
                await _copy(source, target, entry.key)
            except ObjectMissing:
                # Deleted meanwhile: the row that named it goes, or went, the same way.
                continue
        count, size = count + 1, size + entry.size
    return count, size


async def _copy(source: ObjectStore, target: ObjectStore, key: str) -> None:
    async with aclosing(await source.open(key)) as pieces:
        await target.put(key, pieces)
