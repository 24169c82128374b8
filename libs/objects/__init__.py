"""Stores bytes under keys, streamed to and from a directory or an S3 server."""

from libs.objects._address import open_store
from libs.objects._local import LocalObjects
from libs.objects._store import (
    Entry,
    InvalidKey,
    ObjectMissing,
    ObjectStore,
    Pieces,
    Written,
    delete_all,
    one_piece,
    read_all,
)

__all__ = [
    "Entry",
    "InvalidKey",
    "LocalObjects",
    "ObjectMissing",
    "ObjectStore",
    "Pieces",
    "Written",
    "delete_all",
    "one_piece",
    "open_store",
    "read_all",
]
