"""The purpose, size and retention of each table's rows, for docs/operate/data.md."""

TABLES = {
    "company_amounts": {
        "row": "each company and limit, and each unmerged change",
        "bytes": "240",
        "removed": "changes within seconds, when merged; a total when it reaches 0",
    },
}
