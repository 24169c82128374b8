"""The purpose, size and retention of each table's rows, for docs/operate/data.md."""

TABLES = {
    "timeline_events": {
        "row": "each event of every service",
        "bytes": "2,050 with a payload of 770",
        "removed": "its day's partition is dropped after `AES_TIMELINE_DAYS` (30)",
    },
    "timeline_counters": {"row": "each company", "bytes": "155", "removed": "never"},
    "timeline_offsets": {"row": "each partition of an event topic", "bytes": "135", "removed": "never"},
    "usage_hours": {
        "row": "each user, key, agent and model active in an hour",
        "bytes": "690",
        "removed": "after `AES_TIMELINE_USAGE_DAYS` (400)",
    },
    "webhooks": {"row": "each webhook", "bytes": "400", "removed": "once deleted and its deliveries are gone"},
    "webhook_secrets": {
        "row": "each secret of a webhook, two during rotation",
        "bytes": "270",
        "removed": "with its webhook; expired ones at the next rotation",
    },
    "webhook_deliveries": {
        "row": "each event sent to a webhook",
        "bytes": "450",
        "removed": "after 7 days, or 30 for disabled webhooks",
    },
    "webhook_workers": {
        "row": "each process of role `webhooks`",
        "bytes": "95",
        "removed": "when it stops, or an hour after it died",
    },
    "revoked_keys": {"row": "each revoked key", "bytes": "90", "removed": "after the tombstone days"},
}
