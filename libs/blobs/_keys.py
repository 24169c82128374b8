"""The keys under which a blob's objects are stored in the object store."""

from hashlib import sha256


def prefix_of(blob_id: str) -> str:
    """Returns the key prefix of a blob's objects."""
    return f"blobs/{blob_id}/"


def original_key(blob_id: str) -> str:
    """Returns the key of the uploaded bytes."""
    return f"{prefix_of(blob_id)}original"


def derived_key(blob_id: str, kind: str, content_type: str) -> str:
    """Returns the key of an object derived from the uploaded bytes, such as extracted text.

    The key includes a hash of the content type, since the same bytes can be parsed as different types.
    """
    return f"{prefix_of(blob_id)}{kind}/{sha256(content_type.encode()).hexdigest()[:16]}"
