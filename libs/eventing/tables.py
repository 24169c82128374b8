"""Describes the rows of the eventing tables: what they are, their size and how long they're kept.

docs/operate/data.md is generated from this.
"""

TABLES = {
    "outbox": {
        "row": "each event or command sent",
        "bytes": "1,600 with a payload of 770",
        "removed": "8 days after it's published or [parked](alerts.md#eventsparked)",
    },
    "inbox": {"row": "each processed message", "bytes": "230", "removed": "after 8 days"},
    "task_leases": {"row": "each task that only one process runs at a time", "bytes": "110", "removed": "never"},
    "event_sequences": {
        "row": "each entity with events, except turns",
        "bytes": "150",
        "removed": "with the entity's tombstone or, if it has none, its last outbox row",
    },
}
