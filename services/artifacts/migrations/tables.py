"""The purpose, size and retention of each table's rows, for docs/operate/data.md."""

TABLES = {
    "sessions": {
        "row": "each session with artifacts, or deleted",
        "bytes": "230",
        "removed": "once deleted and without artifacts, after the tombstone days",
    },
    "artifacts": {"row": "each artifact", "bytes": "730", "removed": "once deleted, after the tombstone days"},
    "blobs": {
        "row": "each distinct content",
        "bytes": "450",
        "removed": "ten minutes after its last artifact; unfinished uploads after 3 hours",
    },
    "uploads": {"row": "each upload with an `Idempotency-Key`", "bytes": "450", "removed": "after 3 days"},
    "platform_requests": {
        "row": "each pending copy to the platform",
        "bytes": "340",
        "removed": "when answered, or with its artifact",
    },
}
