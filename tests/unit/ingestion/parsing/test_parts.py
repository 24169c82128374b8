"""Parts of a file, each with a time of its own, and what a parsing process prepares for the index."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.adapters.parsing import extraction
from services.ingestion.adapters.parsing.preparing import prepare, prepared, wanted
from services.ingestion.adapters.parsing.reader import read_file
from services.ingestion.domain.documents import Chunk, ParsedDocument, Segment
from services.ingestion.domain.knowledge_bases import IndexSettings
from tests.support.office_files import pdf, xlsx


def parts_of(path: Path, name: str) -> int:
    done: list[None] = []
    read_file(path, name, "", lambda: done.append(None))
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
    document = read_file(tmp_path / "s", "s.pdf", "", lambda: done.append(None))
    assert groups == [[*range(1, 9)], [*range(9, 17)], [17, 18]]
    # Twice while the pages are looked at, and before each group.
    assert len(done) == 2 + 3
    assert [segment.page for segment in document.segments] == [*range(1, 19)]


def test_cutting_has_parts() -> None:
    done: list[None] = []
    document = ParsedDocument("A sentence that is cut.\n\n" * 2500)
    chunks = cut(document, ChunkingStrategy(strategy="paragraph", chunk_size=5), "s", lambda: done.append(None))
    assert len(done) == len(chunks) // 1000 > 1


CHUNKING = ChunkingStrategy()
CHUNKS = [
    Chunk(f"c{n}", n, text, 0, len(text)) for n, text in enumerate(["The ferry leaves.", "a the", "Trams, trams"])
]


def settings(engine: str = "pgvector", provider: str = "wordllama") -> IndexSettings:
    return IndexSettings(engine, CHUNKING, provider, "", 64)


def test_only_what_needs_no_server_is_made_here() -> None:
    assert wanted(settings()) == {"dimensions": 64, "terms": True}
    assert wanted(settings(engine="weaviate")) == {"dimensions": 64, "terms": False}
    assert wanted(settings(provider="openai")) == {"dimensions": 0, "terms": True}
    assert wanted(settings("weaviate", "openai")) is None


@pytest.mark.parametrize("terms", [True, False])
@pytest.mark.parametrize("dimensions", [0, 64])
def test_each_chunk_gets_its_own(dimensions: int, terms: bool) -> None:
    head, body = prepare(CHUNKS, {"dimensions": dimensions, "terms": terms})
    extras = list(prepared({**head, "chunks": CHUNKS}, body))
    assert [vector is not None for vector, _ in extras] == [bool(dimensions)] * 3
    assert [counts and counts.counts.tolist() for _, counts in extras] == ([[1, 1], [], [2]] if terms else [None] * 3)
    assert [counts and counts.length for _, counts in extras] == ([2, 0, 2] if terms else [None] * 3)


def test_what_cannot_be_embedded_is_left_to_the_service() -> None:
    blank = [Chunk("c", 0, " ", 0, 1)]
    head, body = prepare(blank, {"dimensions": 64, "terms": True})
    [(vector, terms)] = prepared({**head, "chunks": blank}, body)
    assert vector is None
    assert terms is not None


def test_a_document_of_endless_chunks_is_left_to_the_service() -> None:
    many = CHUNKS * 1000
    head, body = prepare(many, {"dimensions": 64, "terms": True})
    assert body == b""
    assert set(prepared({**head, "chunks": many}, body)) == {(None, None)}


def test_incomplete_bytes_are_no_counts() -> None:
    head, body = prepare(CHUNKS, {"dimensions": 64, "terms": True})
    for cut_off in (body[:100], body[:-4]):
        with pytest.raises(ValueError, match=r"."):
            prepared({**head, "chunks": CHUNKS}, cut_off)


def test_a_stored_document_is_read_back_unchanged() -> None:
    document = ParsedDocument("Grüße\n\nzwei", (Segment(0, 5, 1), Segment(7, 11, 2, 3)))
    assert ParsedDocument.from_bytes(document.to_bytes()) == document
    assert ParsedDocument.from_bytes(ParsedDocument("").to_bytes()) == ParsedDocument("")
