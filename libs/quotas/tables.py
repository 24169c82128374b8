"""The purpose, size and retention of each table's rows, for docs/operate/data.md."""

TABLES = {
    "company_amounts": {
        "row": "each company and limit in three services, and unmerged changes",
        "bytes": "240",
        "removed": "changes when merged, within seconds; the total when it's 0",
    },
}
