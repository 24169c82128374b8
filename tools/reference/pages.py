"""Lists the generated pages."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.reference import command_line, configuration, errors, events, metrics, routes, tables
from tools.reference.markdown import filled

DOCS: Final = Path(__file__).parents[2] / "docs"
_PARTS: Final[Mapping[str, Callable[[], dict[str, str]]]] = {
    "operate/data.md": tables.parts,
    "operate/metrics.md": metrics.parts,
    "reference/configuration.md": configuration.parts,
    "reference/errors.md": errors.parts,
}
"""Handwritten pages with generated tables."""


def pages() -> dict[Path, str]:
    """Returns the current text of all generated pages."""
    return {
        **{DOCS / name: filled((DOCS / name).read_text(), parts()) for name, parts in _PARTS.items()},
        DOCS / "reference/command-line.md": command_line.page(),
        **{DOCS / "reference" / name: page for name, page in (events.pages() | routes.pages()).items()},
    }
