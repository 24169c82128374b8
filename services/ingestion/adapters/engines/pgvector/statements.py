"""The statements of a search.

Candidates are known by their place in the table (ctid), which holds within the one statement.
"""

from psycopg.sql import SQL

BY_MEANING = SQL(
    """
    SELECT ctid AS place FROM {table} WHERE {files}
    ORDER BY embedding <#> %(vector)s::halfvec LIMIT {depth}
    """
)

BY_WORDS = SQL(
    """
    SELECT place FROM (
        SELECT ctid AS place, -(weights <#> %(words)s::sparsevec) AS score, file_id, position FROM {table}
        WHERE {having} AND {files} ORDER BY score DESC, file_id, position LIMIT {depth}
    ) AS best WHERE score > 0
    """
)

COSINE = SQL("-(embedding <#> %(vector)s::halfvec)")
WORDS = SQL("-(weights <#> %(words)s::sparsevec)")

# Candidates of either search get both scores.
CANDIDATES = SQL(
    """
    WITH {ways}, found AS ({places})
    SELECT file_id, id, position, {cosine}, {words} FROM found JOIN {table} AS passages ON passages.ctid = place
    """
)

HITS = SQL(
    """
    SELECT file_id, id, content, start_offset, end_offset, page, row_number
    FROM {table} JOIN unnest(%s::text[], %s::text[]) AS wanted (file_id, id) USING (file_id, id)
    """
)
