"""The purpose, size and retention of the tables' rows, from which docs/operate/data.md is generated."""

TABLES = {
    "company_amounts": {
        "row": "each company's total for a limit, and each change not yet merged into it",
        "bytes": "240",
        "removed": "changes within seconds, when merged; a total when it reaches 0",
    },
}
