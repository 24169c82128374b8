"""Reads JSON: arrays of objects as tables, anything else as indented text."""

import json
from collections.abc import Mapping
from typing import Any

from libs.documents import read_json
from services.ingestion.adapters.parsing.limits import Limits
from services.ingestion.adapters.parsing.tables import TableText, unparsable
from services.ingestion.domain.documents import ParsedDocument


def from_json(text: str, limits: Limits) -> ParsedDocument:
    with unparsable():
        value = read_json(text)
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        table = TableText(limits)
        for number, item in enumerate(value, 1):
            table.row(", ".join(f"{key}: {_cell(cell)}" for key, cell in item.items() if cell is not None), number)
        return table.document()
    return ParsedDocument("" if value in (None, {}, []) else _written(value, text))


def _written(value: Any, text: str, indent: int | None = 2) -> str:
    try:
        separators = None if indent else (",", ":")
        return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    except RecursionError:
        # Nested deeper than it can be written.
        return text


def _cell(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else _written(value, str(value), None)
