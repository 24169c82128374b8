"""The purpose, size and retention of each table's rows, for docs/operate/data.md."""

TABLES = {
    "files": {"row": "each file", "bytes": "860", "removed": "once deleted, after the tombstone days"},
    "blobs": {
        "row": "each distinct content",
        "bytes": "450",
        "removed": "a day after its last file; unfinished uploads after 3 hours",
    },
    "texts": {"row": "each content and kind of document", "bytes": "220", "removed": "with its blob"},
    "uploads": {"row": "each upload with an `Idempotency-Key`", "bytes": "470", "removed": "after 3 days"},
    "collections": {"row": "each collection", "bytes": "750", "removed": "when deleted"},
    "collection_files": {"row": "each file in a collection", "bytes": "330", "removed": "when either is deleted"},
    "knowledge_bases": {
        "row": "each knowledge base",
        "bytes": "1,870",
        "removed": "once deleted, after the tombstone days",
    },
    "knowledge_base_indexes": {
        "row": "each index, one per combination of settings",
        "bytes": "970",
        "removed": "when replaced, or its knowledge base is deleted",
    },
    "knowledge_base_views": {
        "row": "each user who viewed a knowledge base",
        "bytes": "250",
        "removed": "with the knowledge base",
    },
    "ingestion_runs": {
        "row": "each ingestion",
        "bytes": "590",
        "removed": "after the tombstone days, unless the latest of a knowledge base or file",
    },
    "ingestion_items": {"row": "each file in each index", "bytes": "480", "removed": "with file or index"},
    "artifact_documents": {
        "row": "each document of a session",
        "bytes": "480",
        "removed": "once deleted, after the tombstone days",
    },
    "search.indexes": {
        "row": "each index in pgvector",
        "bytes": "200",
        "removed": "with the index, as is its table of passages",
    },
    "search.term_frequencies": {
        "row": "each term in more than one passage of an index",
        "bytes": "85",
        "removed": "with the index, and at each recount",
    },
}
