"""Uploaded bytes: received under a row, stored once per company, and collected when unreferenced.

A blob's states are `uploading` → `stored` ⇄ `unused` → `abandoned` → `emptied`; then its row is deleted. Only ``keep``
and ``release`` in an owner's transaction, ``Blobs`` and ``CollectBlobs`` change the state.
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
