"""Each table's rows: their purpose, their size with indexes, and their removal, for docs/operate/data.md."""

TABLES = {
    "company_amounts": {
        "row": "each company and limit, and each unmerged change",
        "bytes": "240",
        "removed": "changes within seconds, when merged; a total when it reaches 0",
    },
}
