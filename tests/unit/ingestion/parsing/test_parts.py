"""Parts of a file: each has its own time, so long files are read to their end."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.adapters.parsing import extraction
from services.ingestion.adapters.parsing.limits import Limits
from services.ingestion.adapters.parsing.reader import read_file
from services.ingestion.domain.documents import ParsedDocument
from tests.support.office_files import pdf, xlsx


def parts_of(path: Path, name: str) -> int:
    done: list[None] = []
    read_file(path, name, "", Limits(), lambda: done.append(None))
    return len(done)


def test_rows_of_a_table_are_read_in_parts(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("".join(f"row {number},{number}\n" for number in range(12_000)))
    assert parts_of(tmp_path / "t", "t.csv") == 2


def test_each_sheet_of_a_workbook_is_a_part(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(xlsx({"A": [("x", 1)], "B": [("y", 2)]}))
    assert parts_of(tmp_path / "w", "w.xlsx") == 2


def test_scanned_pages_are_recognised_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[list[int]] = []

    def recognised(_path: Path, numbers: Sequence[int], *, needed: bool) -> dict[int, str]:
        assert needed
        groups.append(list(numbers))
        return {number: f"Page {number}." for number in numbers}

    monkeypatch.setattr(extraction, "recognised_pages", recognised)
    (tmp_path / "s").write_bytes(pdf([None] * 18))
    done: list[None] = []
    document = read_file(tmp_path / "s", "s.pdf", "", Limits(), lambda: done.append(None))
    assert groups == [[*range(1, 9)], [*range(9, 17)], [17, 18]]
    # Twice while the pages are looked at, and before each group.
    assert len(done) == 2 + 3
    assert [segment.page for segment in document.segments] == [*range(1, 19)]


def test_cutting_has_parts() -> None:
    done: list[None] = []
    document = ParsedDocument("A sentence that is cut.\n\n" * 2500)
    chunks = cut(document, ChunkingStrategy(strategy="paragraph", chunk_size=5), "s", lambda: done.append(None))
    assert len(done) == len(chunks) // 1000 > 1
