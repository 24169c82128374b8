"""Each table's rows: their purpose, their size with indexes, and their removal, for docs/operate/data.md."""

TABLES = {
    "sessions": {
        "row": "each session",
        "bytes": "2,210 with a configuration of 1.2 kB",
        "removed": "when deleted, or unused for the retention period",
    },
    "turns": {
        "row": "each turn",
        "bytes": "1,400 with a plain reply; more with tool calls and citations",
        "removed": "with its session",
    },
    "messages": {
        "row": "each user message and each reply",
        "bytes": "520 with a text of 256",
        "removed": "with its session",
    },
    "steps": {
        "row": "each tool-calling model response and each tool result",
        "bytes": "610 with 400 of content",
        "removed": "with its session",
    },
    "waits": {
        "row": "each wait of a turn, such as an approval",
        "bytes": "1,100 with arguments of 100 bytes",
        "removed": "with its session",
    },
    "budgets": {"row": "each budget, up to 100 per company", "bytes": "460", "removed": "when deleted"},
    "model_prices": {"row": "each model with a custom price", "bytes": "130", "removed": "when an operator removes it"},
    "retention": {"row": "each company with its own retention", "bytes": "165", "removed": "never"},
    "session_tombstones": {"row": "each deleted session", "bytes": "200", "removed": "after the tombstone days"},
    "workers": {
        "row": "each worker process",
        "bytes": "160",
        "removed": "when it stops, or a minute after its turns are taken over",
    },
}
