"""Objects small enough for memory, in one piece."""

from libs.objects._store import ObjectStore, Pieces


async def one_piece(content: bytes) -> Pieces:
    """Bytes at hand, to ``put``."""
    yield content


async def read_all(store: ObjectStore, key: str) -> bytes:
    """The whole object. Raises ``ObjectMissing``."""
    pieces = await store.open(key)
    try:
        return b"".join([piece async for piece in pieces])
    finally:
        await pieces.aclose()
