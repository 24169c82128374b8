"""Stores uploaded files as blobs. A company's identical files share a blob, which is deleted once unreferenced.

A blob's states are `uploading` → `stored` ⇄ `unused` → `abandoned` → `emptied`; then its row is deleted. ``keep`` and
``release`` run in the transaction that changes the referencing row.
"""

from libs.blobs._collector import CollectBlobs
from libs.blobs._receiving import Blobs, Inspection, Upload, invalid_file
from libs.blobs._rows import ReceivedFile, UploadKey, derived_key, keep, original_key, release, repeated

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
