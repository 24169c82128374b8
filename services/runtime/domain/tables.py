"""Formats tables as text for models."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from libs.contracts.resources.artifacts import Sheet

_LONGEST_CELL: Final = 120
_MOST_SHEETS: Final = 20
_NOT_A_NAME: Final = re.compile(r"\W+", re.ASCII)


def described(tables: Sequence[Sheet]) -> str:
    """Describes each sheet by its columns, their types and the first rows."""
    blocks = [
        "\n".join(
            (
                f'table {query_name} (sheet "{table.name}"), {counted(table.row_count)}',
                "columns: " + ", ".join(f"{h} ({t})" for h, t in zip(table.headers, table.types, strict=False)),
                *(("first rows:", rendered(table.rows)) if table.rows else ()),
            )
        )
        for table, query_name in zip(tables[:_MOST_SHEETS], query_names(table.name for table in tables), strict=False)
    ]
    if len(tables) > _MOST_SHEETS:
        blocks.append(f"and {len(tables) - _MOST_SHEETS} more sheets")
    return "\n\n".join(blocks)


def counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


def query_names(sheets: Iterable[str]) -> list[str]:
    """Returns a unique name for each sheet. The names don't need quotes in SQL."""
    names: list[str] = []
    for sheet in sheets:
        base = _NOT_A_NAME.sub("_", sheet).strip("_").lower() or "sheet"
        base = f"t_{base}" if base[0].isdigit() else base
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names


def rendered(rows: Iterable[Sequence[Any]], *, longest: int = _LONGEST_CELL) -> str:
    """Formats each row as a line with bars between the cells. Cells are cut at ``longest`` characters."""
    return "\n".join(" | ".join(_cell(cell, longest) for cell in row) for row in rows)


def _cell(cell: Any, longest: int) -> str:
    text = "" if cell is None else " ".join(str(cell).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"
