"""The purpose, size and retention of each table's rows, for docs/operate/data.md."""

TABLES = {
    "agents": {"row": "each agent", "bytes": "480", "removed": "once deleted, after the tombstone days"},
    "agent_versions": {
        "row": "each version",
        "bytes": "2,460 with a configuration of 2 kB",
        "removed": "with its agent",
    },
    "toolsets": {"row": "each toolset", "bytes": "370", "removed": "once deleted, after the tombstone days"},
    "toolset_versions": {
        "row": "each version",
        "bytes": "1,900 with five tools of 300 bytes",
        "removed": "with its toolset; once replaced, after the tombstone days",
    },
    "secrets": {
        "row": "each secret",
        "bytes": "410 with a value of 40",
        "removed": "ciphertext when deleted; name after the tombstone days",
    },
}
