"""Generates the tables in docs/operate/data.md from descriptions in the migrations."""

import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from libs.eventing import tables as eventing
from libs.quotas import tables as quotas
from tools.reference.markdown import table

_ROOT: Final = Path(__file__).parents[2]
_CREATED: Final = re.compile(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?([a-z_]+(?:\.[a-z_]+)?) \(")
_OWN_SCHEMA: Final = re.compile(r"^from ((?:libs\.blobs|services)\.[\w.]*schema) import", re.MULTILINE)


def parts() -> dict[str, str]:
    shared = "".join((_ROOT / "libs" / room / "schema.py").read_text() for room in ("eventing", "quotas"))
    return {
        "every service": _table(shared, {**eventing.TABLES, **quotas.TABLES}),
        **{folder.parent.name: _of_service(folder) for folder in sorted((_ROOT / "services").glob("*/migrations"))},
    }


def _of_service(migrations: Path) -> str:
    revisions = sorted((migrations / "versions").glob("[0-9]*.py"))
    source = "".join(revision.read_text() for revision in revisions)
    for module in _OWN_SCHEMA.findall(source):
        source += (_ROOT / f"{module.replace('.', '/')}.py").read_text()
    described = [runpy.run_path(str(revision)).get("TABLES", {}) for revision in revisions]
    return _table(source, {name: each for tables in described for name, each in tables.items()})


def _table(source: str, described: Mapping[str, Mapping[str, str]]) -> str:
    """Raises ValueError unless exactly the tables that the source creates are described."""
    if different := set(_CREATED.findall(source)) ^ described.keys():
        raise ValueError(f"not both created and described in TABLES: {', '.join(sorted(different))}")
    rows = ((f"`{name}`", each["row"], each["bytes"], each["removed"]) for name, each in described.items())
    return table(("table", "a row for", "bytes", "removed"), rows)
