from services.ingestion.domain.documents import ParsedDocument, Segment


def test_a_stored_document_is_read_back_unchanged() -> None:
    document = ParsedDocument("Grüße\n\nzwei", (Segment(0, 5, 1), Segment(7, 11, 2, 3)), {"pages": 2})
    assert ParsedDocument.from_bytes(document.to_bytes()) == document
    assert ParsedDocument.from_bytes(ParsedDocument("").to_bytes()) == ParsedDocument("")
