"""Bytes of uploads: received under a row, stored once for each company, and collected when nothing refers to them.

A blob is `uploading` → `stored` ⇄ `unused` → `abandoned` → `emptied`, and then its row goes. Only ``keep`` and
``release`` in a transaction of the owner, ``Blobs`` and ``CollectBlobs`` change that.
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
