"""The statements of a search.

Candidates are known by their place in the table (ctid), which holds within the one statement.
"""

from psycopg.sql import SQL

_COLUMNS = "id, file_id, content, start_offset, end_offset, page, row_number"

SEMANTIC_CANDIDATES = SQL(
    """
    SELECT ctid AS place FROM {table} WHERE {files}
    ORDER BY embedding <#> %(vector)s::halfvec LIMIT {depth}
    """
)

KEYWORD_CANDIDATES = SQL(
    """
    SELECT place, score FROM (
        SELECT ctid AS place, -(weights <#> %(words)s::sparsevec) AS score FROM {table} WHERE {files}
        ORDER BY score DESC LIMIT {depth}
    ) AS best WHERE score > 0
    """
)

KEYWORD_CANDIDATES_BY_WORDS = SQL(
    """
    SELECT ctid AS place, -(weights <#> %(words)s::sparsevec) AS score FROM {table}
    WHERE {having} AND {files} ORDER BY score DESC LIMIT {depth}
    """
)

SEMANTIC = SQL(
    f"""
    SELECT -(embedding <#> %(vector)s::halfvec), {_COLUMNS} FROM {{table}} WHERE {{files}}
    ORDER BY embedding <#> %(vector)s::halfvec LIMIT {{limit}}
    """
)

KEYWORD = SQL(
    f"""
    WITH found AS MATERIALIZED ({{by_words}})
    SELECT score / %(bound)s, {_COLUMNS} FROM {{table}} AS passages JOIN found ON passages.ctid = place
    ORDER BY score DESC, file_id, position LIMIT {{limit}}
    """
)

# Candidates of either search get both scores.
HYBRID = SQL(
    f"""
    WITH by_meaning AS MATERIALIZED ({{by_meaning}}), by_words AS MATERIALIZED ({{by_words}}),
    best AS (SELECT max(score) AS score FROM by_words),
    found AS (SELECT place FROM by_meaning UNION SELECT place FROM by_words),
    scored AS (
        SELECT passages.ctid AS place,
            {{share}} * greatest(0, -(embedding <#> %(vector)s::halfvec))
            + (1 - {{share}}) * coalesce(-(weights <#> %(words)s::sparsevec) / nullif(best.score, 0), 0) AS score
        FROM found JOIN {{table}} AS passages ON passages.ctid = found.place CROSS JOIN best
        ORDER BY score DESC, file_id, position LIMIT {{limit}}
    )
    SELECT score, {_COLUMNS} FROM scored JOIN {{table}} AS passages ON passages.ctid = place
    ORDER BY score DESC, file_id, position
    """
)
