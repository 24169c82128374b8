"""Converts the values of workbook cells to text."""

import datetime
from decimal import Decimal
from typing import Any


def cell_text(cell: Any) -> str:
    """Formats a cell's value as a spreadsheet displays it.

    Examples: `2.5`, `true`, `2026-05-04`, `2026-05-04 10:30:00`, `10:30:00`, `36:00:00`.
    """
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        text = repr(cell).removesuffix(".0")
        return format(Decimal(text), "f") if "e" in text else text
    if isinstance(cell, datetime.timedelta):
        return _duration(cell)
    return str(cell)


def _duration(time: datetime.timedelta) -> str:
    sign, time = ("-", -time) if time < datetime.timedelta() else ("", time)
    minutes, seconds = divmod(round(time.total_seconds()), 60)
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
