"""Object keys of a blob."""

from hashlib import sha256


def prefix_of(blob_id: str) -> str:
    """Returns the prefix of all objects of a blob. They're deleted together."""
    return f"blobs/{blob_id}/"


def original_key(blob_id: str) -> str:
    """Returns the key of the original bytes."""
    return f"{prefix_of(blob_id)}original"


def derived_key(blob_id: str, kind: str, content_type: str) -> str:
    """Returns the key of an object derived from the bytes. The result depends on the content type."""
    return f"{prefix_of(blob_id)}{kind}/{sha256(content_type.encode()).hexdigest()[:16]}"
