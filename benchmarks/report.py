"""Prints the result of a benchmark as tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy

from cli.terminal import note, print_table

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """``figures`` is the JSON document without the conditions. ``tables`` contains rows by title.

    If ``missed`` is true, a goal was missed and the command exits with 1.
    """

    figures: Record
    tables: Mapping[str, Sequence[Record]]
    remarks: Sequence[str] = ()
    missed: bool = False

    def show(self) -> None:
        for title, records in self.tables.items():
            headings = list(dict.fromkeys(name for record in records for name in record))
            rows = [[_text(record.get(name)) for name in headings] for record in records]
            print(f"\n{title}\n")
            print_table([heading.replace("_", " ") for heading in headings], rows)
        for remark in self.remarks:
            note(remark)


def percentile(values: Sequence[float], percent: float) -> float:
    """Interpolates linearly between the two nearest ranks. `values` must not be empty."""
    return float(numpy.percentile(values, percent))


def paired_ratio(figures: Mapping[tuple[str, int], float | None], side: str) -> float | None:
    """Returns the median ratio of a side's figure to the reference's over the rounds, or None if no round has both.

    ``figures`` are keyed by side and round.
    """
    ratios = [
        value / other
        for (name, number), value in figures.items()
        if name == side and value is not None and (other := figures.get(("reference", number)))
    ]
    return median(ratios) if ratios else None


def _text(value: Any) -> str:
    """Formats a value. Floating-point numbers have three significant digits."""
    if isinstance(value, float):
        return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3}f}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
