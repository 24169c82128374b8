"""docs/operate/data.md has every table of every service, and says what removes its rows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTIONS = dict(
    re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", (ROOT / "docs/operate/data.md").read_text(), re.MULTILINE | re.DOTALL)
)
ROW = re.compile(r"^\| `([\w.]+)` \| [^|]+ \| [\d,]+[^|]* \| [^|]+ \|$", re.MULTILINE)
CREATED = re.compile(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?([a-z_]+(?:\.[a-z_]+)?) \(")
SERVICES = sorted(folder.parent for folder in (ROOT / "services").glob("*/migrations"))


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_every_table_of_a_service_is_described(service: Path) -> None:
    revisions = (service / "migrations" / "versions").glob("[0-9]*.py")
    written = "".join(revision.read_text() for revision in revisions)
    for module in re.findall(r"^from ((?:libs\.blobs|services)\.[\w.]*schema) import", written, re.MULTILINE):
        written += (ROOT / f"{module.replace('.', '/')}.py").read_text()
    tables = set(CREATED.findall(written))
    assert tables
    assert set(ROW.findall(SECTIONS[service.name])) == tables


def test_the_tables_of_all_services_are_described() -> None:
    schemas = (ROOT / "libs/eventing/schema.py", ROOT / "libs/quotas/schema.py")
    tables = {table for schema in schemas for table in CREATED.findall(schema.read_text())}
    assert set(ROW.findall(SECTIONS["Every service"])) == tables
    assert tables == {"outbox", "inbox", "event_sequences", "task_leases", "company_amounts"}
