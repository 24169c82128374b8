"""Uploaded bytes: each blob has a row, is stored once per company, and is collected when unreferenced.

A blob's states are `uploading` → `stored` ⇄ `unused` → `abandoned` → `emptied`; then its row is deleted. State changes
are made only by ``Blobs``, by ``CollectBlobs``, and by ``keep`` and ``release`` in a transaction of the table that
references the blob.
"""

from libs.blobs._collector import CollectBlobs
from libs.blobs._keys import derived_key, original_key
from libs.blobs._receiving import Blobs, Inspection, Upload, invalid_file
from libs.blobs._rows import ReceivedFile, UploadKey, keep, release, repeated

__all__ = [
    "Blobs",
    "CollectBlobs",
    "Inspection",
    "ReceivedFile",
    "Upload",
    "UploadKey",
    "derived_key",
    "invalid_file",
    "keep",
    "original_key",
    "release",
    "repeated",
]
