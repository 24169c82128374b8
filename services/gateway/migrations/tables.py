"""The purpose, size and retention of each table's rows, for docs/operate/data.md."""

TABLES = {
    "companies": {"row": "each company", "bytes": "165", "removed": "never"},
    "users": {"row": "each user", "bytes": "275", "removed": "never"},
    "api_keys": {"row": "each key", "bytes": "570", "removed": "once revoked or expired, after the tombstone days"},
    "rates": {
        "row": "each company and rate, and each key",
        "bytes": "230",
        "removed": "two minutes after the last request",
    },
    "company_streams": {
        "row": "each company and gateway with open streams",
        "bytes": "255",
        "removed": "two minutes after the last stream",
    },
    "connections": {"row": "each public key", "bytes": "640", "removed": "when it is deleted"},
    "idempotency_keys": {"row": "each write with an `Idempotency-Key`", "bytes": "590", "removed": "after 3 days"},
}
