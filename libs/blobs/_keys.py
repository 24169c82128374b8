"""Keys of a blob's objects."""

from hashlib import sha256


def prefix_of(blob_id: str) -> str:
    """The prefix of all objects of a blob, which go with it."""
    return f"blobs/{blob_id}/"


def original_key(blob_id: str) -> str:
    """The bytes themselves."""
    return f"{prefix_of(blob_id)}original"


def derived_key(blob_id: str, kind: str, content_type: str) -> str:
    """An object made from the bytes. The same bytes give another one under another type."""
    return f"{prefix_of(blob_id)}{kind}/{sha256(content_type.encode()).hexdigest()[:16]}"
