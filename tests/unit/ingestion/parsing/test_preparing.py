import pytest

from libs.contracts.resources.knowledge_bases import ChunkingStrategy
from services.ingestion.adapters.parsing.preparing import prepare, prepared, wanted
from services.ingestion.domain.documents import Chunk
from services.ingestion.domain.knowledge_bases import IndexSettings

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
