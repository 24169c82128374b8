"""Reads JSON: arrays of objects as tables, anything else as indented text."""

from collections.abc import Mapping
from typing import Any

import orjson

from services.ingestion.adapters.parsing.limits import Limits
from services.ingestion.adapters.parsing.tables import TableText
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.parsing import Unparsable


def from_json(text: str, limits: Limits) -> ParsedDocument:
    value = _value(text)
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        table = TableText(limits)
        for number, item in enumerate(value, 1):
            table.row(", ".join(f"{key}: {_cell(cell)}" for key, cell in item.items() if cell is not None), number)
        return table.document()
    return ParsedDocument("" if value in (None, {}, []) else _written(value, text))


def _written(value: Any, text: str, option: int = orjson.OPT_INDENT_2) -> str:
    try:
        return orjson.dumps(value, option=option).decode()
    except orjson.JSONEncodeError:
        # Nested deeper than it can be written.
        return text


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            if len(lines) > 1:
                return [orjson.loads(line) for line in lines]
        except orjson.JSONDecodeError:
            pass
        raise Unparsable("damaged", f"The file is not valid JSON: {error}.") from None


def _cell(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else _written(value, str(value), 0)
