"""The built-in model's files: tables and quotes that it found, in the format that the question names."""

import re
from collections.abc import Sequence
from html import escape
from typing import Any, Final

import orjson

from services.runtime.domain.conversation import JsonObject, ToolResult

_NAME: Final = re.compile(r"(?<![\w/.-])([\w-]{1,80}\.(?:md|txt|html|csv|json|xlsx))\b", re.IGNORECASE)
_MAKE: Final = re.compile(r"\b(?:make|create|write|save|export|put|produce|generate)\b", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_COUNT: Final = re.compile(r"\((?:the first )?\d+ rows?\b.*\)$")


def wanted_file(question: str) -> str | None:
    """The name of the file that the question asks for, if any."""
    name = _NAME.search(question)
    return name[1] if name and _MAKE.search(question) else None


def rows_of(result: ToolResult) -> list[list[str]]:
    """The rows of a `table_query` result, its header first."""
    lines = [line for line in result.output.strip().splitlines() if not _COUNT.match(line)]
    return [line.split(" | ") for line in lines]


def table_told(result: ToolResult) -> str:
    """One row as a sentence, several as they are."""
    header, *rows = rows_of(result)
    if not rows:
        return "No row of the table fits."
    if len(rows) > 1:
        return result.output.strip()
    return ", ".join(f"{name}: {value}" for name, value in zip(header, rows[0], strict=False))


def file_of(name: str, results: Sequence[ToolResult], said: str) -> JsonObject:
    """The arguments of `artifact_create`: a table when one was found, else the answer's text."""
    tables = [rows_of(result) for result in results if result.name == "table_query" and not result.is_error]
    ending = name.rsplit(".", 1)[1].lower()
    if ending in ("xlsx", "csv"):
        rows = tables[0] if tables else [["text"], [said]]
        typed: list[list[Any]] = [rows[0], *([_typed(cell) for cell in row] for row in rows[1:])]
        return {"name": name, "sheets": [{"name": name.rsplit(".", 1)[0], "rows": typed}]}
    text = "\n\n".join(["\n".join(_markdown(rows)) for rows in tables] or [said])
    match ending:
        case "json":
            return {"name": name, "content": _json(tables, said)}
        case "html":
            page = f"<!doctype html>\n<title>{escape(name)}</title>\n<pre>{escape(text)}</pre>\n"
            return {"name": name, "content": page}
        case _:
            return {"name": name, "content": f"{text}\n"}


def _markdown(rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]]


def _typed(cell: str) -> str | int | float:
    if not _NUMBER.fullmatch(cell):
        return cell
    number = float(cell)
    return int(number) if number.is_integer() else number


def _json(tables: list[list[list[str]]], said: str) -> str:
    rows = [dict(zip(rows[0], map(_typed, row), strict=False)) for rows in tables for row in rows[1:]]
    return orjson.dumps(rows if tables else {"text": said}, option=orjson.OPT_INDENT_2).decode()
