"""Writes the built-in model's SQL queries, and the files that contain the results."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import orjson

from services.runtime.adapters.models.extractive.sentences import content_words
from services.runtime.domain.conversation import ArtifactPart, JsonObject, ToolResult

_NAME: Final = re.compile(r"(?<![\w/.-])([\w-]{1,80}\.(?:md|txt|html|csv|json|xlsx))\b", re.IGNORECASE)
_MAKE: Final = re.compile(r"\b(?:make|create|write|save|export|put|produce|generate)\b", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_COUNT: Final = re.compile(r"\((?:the first )?\d+ rows?\b.*\)$")


def wanted_file(question: str) -> str | None:
    """Returns the name of the file that the question asks for, or None."""
    name = _NAME.search(question)
    return name[1] if name and _MAKE.search(question) else None


def rows_of(result: ToolResult) -> list[list[str]]:
    """Parses the output of `table_query` into rows of cells. The first row is the header."""
    lines = [line for line in result.output.strip().splitlines() if not _COUNT.match(line)]
    return [line.split(" | ") for line in lines]


def row_sentence(result: ToolResult) -> str:
    """Formats a single result row as "name: value" pairs. Returns a result with several rows unchanged."""
    header, *rows = rows_of(result)
    if not rows:
        return "No rows match."
    if len(rows) > 1:
        return result.output.strip()
    return ", ".join(f"{name}: {value}" for name, value in zip(header, rows[0], strict=False))


def file_of(name: str, results: Sequence[ToolResult], answer: str) -> JsonObject:
    """Returns the arguments for `artifact_create`: the tables in `results` or, if there are none, the answer's text."""
    tables = [rows_of(result) for result in results if result.name == "table_query" and not result.is_error]
    ending = name.rsplit(".", 1)[1].lower()
    if ending in ("xlsx", "csv"):
        rows = tables[0] if tables else [["text"], [answer]]
        typed: list[list[Any]] = [rows[0], *([_typed(cell) for cell in row] for row in rows[1:])]
        return {"name": name, "sheets": [{"name": name.rsplit(".", 1)[0], "rows": typed}]}
    text = "\n\n".join(["\n".join(_markdown(rows)) for rows in tables] or [answer])
    content = f"{text}\n"
    if ending == "json":
        content = _json(tables, answer)
    elif ending == "html":
        content = f"<!doctype html>\n<title>{escape(name)}</title>\n<pre>{escape(text)}</pre>\n"
    return {"name": name, "content": content}


def _markdown(rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]]


def _typed(cell: str) -> str | int | float:
    if not _NUMBER.fullmatch(cell):
        return cell
    number = float(cell)
    return int(number) if number.is_integer() else number


def _json(tables: list[list[list[str]]], answer: str) -> str:
    rows = [dict(zip(rows[0], map(_typed, row), strict=False)) for rows in tables for row in rows[1:]]
    return orjson.dumps(rows if tables else {"text": answer}, option=orjson.OPT_INDENT_2).decode()


_TABLE: Final = re.compile(r'^table (\w+) \(sheet "(?:.*)"\), \d+ rows?\ncolumns: (.+)$', re.MULTILINE)
_COLUMN: Final = re.compile(r"(.+?) \((\w+)\)(?:, |$)")
_NUMBERS: Final = frozenset({"integer", "number"})
_AVERAGE: Final = re.compile(r"\b(?:average|mean|on average)\b", re.IGNORECASE)
_MOST: Final = re.compile(r"\b(?:most|highest|largest|biggest|best|maximum|busiest)\b", re.IGNORECASE)
_LEAST: Final = re.compile(r"\b(?:least|fewest|lowest|smallest|worst|minimum|quietest)\b", re.IGNORECASE)
_GROUPED: Final = re.compile(r"\b(?:by|per|each|every|which|what)\b", re.IGNORECASE)
_COUNTED: Final = re.compile(r"\bhow many (?:rows|entries|lines|records)\b", re.IGNORECASE)
_NAMED: Final = re.compile(
    r"\b(?:in|for|to|from|of|on)\s+(?:the\s+)?([A-ZÀ-Þ][\w'-]*(?:\s+(?:[A-ZÀ-Þ][\w'-]*|\d{4}))*)|[\"“]([^\"”]{1,60})[\"”]"
)


@dataclass(frozen=True, slots=True)
class DescribedTable:
    file: ArtifactPart
    name: str
    columns: tuple[tuple[str, str], ...]


def tables_in(text: str, file: ArtifactPart) -> list[DescribedTable]:
    return [DescribedTable(file, name, tuple(_COLUMN.findall(columns))) for name, columns in _TABLE.findall(text)]


def wanted_query(question: str, tables: Sequence[DescribedTable]) -> JsonObject | None:
    """Returns the arguments for `table_query`, or None if the question doesn't ask about the tables."""
    best: tuple[float, DescribedTable, str] | None = None
    for table in tables:
        if _COUNTED.search(question):
            return _call(table, "SELECT count(*) AS rows", "")
        for column, kind in table.columns:
            score = _named(column, question) if kind in _NUMBERS else 0.0
            if score > 0 and (best is None or score > best[0]):
                best = (score, table, column)
    return None if best is None else _aggregate(question, best[1], best[2])


def _aggregate(question: str, table: DescribedTable, measure: str) -> JsonObject:
    function = "avg" if _AVERAGE.search(question) else "sum"
    label = f"{'average' if function == 'avg' else 'total'} {measure}"
    figure = f"round({function}({_quoted(measure)}), 2) AS {_quoted(label)}"
    condition = _condition(question, table)
    group = _group(question, table, measure)
    if group is None:
        return _call(table, f"SELECT {figure}", condition)
    ordered = "min(rowid)"
    if _MOST.search(question):
        ordered = "2 DESC LIMIT 1"
    elif _LEAST.search(question):
        ordered = "2 LIMIT 1"
    return _call(table, f"SELECT {_quoted(group)}, {figure}", f"{condition} GROUP BY ALL ORDER BY {ordered}")


def _call(table: DescribedTable, select: str, rest: str) -> JsonObject:
    return {"artifact": table.file.artifact_id, "sql": f"{select} FROM {table.name}{rest}"}


def _group(question: str, table: DescribedTable, measure: str) -> str | None:
    for asked in _GROUPED.finditer(question):
        # Use the nearest column after "by", "per" or "which".
        near = " ".join(question[asked.end() :].split()[:3])
        named = [(_named(column, near), column) for column, _ in table.columns if column != measure]
        score, column = max(named, default=(0.0, ""))
        if score > 0:
            return column
    return None


def _condition(question: str, table: DescribedTable) -> str:
    """Returns a WHERE clause for the capitalized or quoted names in the question, or "" if there are none."""
    texts = [column for column, kind in table.columns if kind not in _NUMBERS]
    names = ["".join(found) for found in _NAMED.findall(question)]
    names = [name for name in names if not any(_named(column, name) for column, _ in table.columns)]
    if not texts or not names:
        return ""
    row = f"concat_ws(' ', {', '.join(_quoted(column) for column in texts)})"
    return " WHERE " + " AND ".join(f"{row} ILIKE {_text('%' + name + '%')}" for name in names[:3])


def _named(column: str, text: str) -> float:
    """Returns the share (0 to 1) of the column name's words that occur in the text. A share below 0.5 counts as 0."""
    words = content_words(column)
    mentioned = {*content_words(text)}
    found = sum(word in mentioned for word in words)
    return found / len(words) if words and found * 2 >= len(words) else 0.0


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
