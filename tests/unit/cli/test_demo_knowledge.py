import io
from typing import Any

import orjson
import pytest
from aes_client import models
from rich.console import Console

from cli.demo import steps
from cli.demo.view import Screen
from deploy.local.errors import StackError
from tests.support.cli_service import document
from tests.support.client_service import FakeService, blocking


def state(status: str, phase: str = "", progress: int = 0, **more: Any) -> dict[str, Any]:
    return document(
        models.KnowledgeBase,
        id="kb1",
        name="Skarholm Line",
        status=status,
        progress=progress,
        processing_metadata={"phase": phase} if phase else {},
        datasource_count=2,
        datasource_snapshots={"f1": document(models.DatasourceSnapshot, name="fees.md")},
        **more,
    )


def build(*looks: dict[str, Any]) -> tuple[models.KnowledgeBase, FakeService, str]:
    """Builds a knowledge base whose ingestion is seen in these states, one after the other."""
    service = FakeService()
    files = [document(models.File, id=name, content_type="text/markdown") for name in ("f1", "f2")]
    service.on("POST", "/files/", *files)
    service.on("POST", "/knowledge-bases/", state("pending"))
    service.on("GET", "/knowledge-bases/kb1/", *looks)
    found = document(models.Citation, file_name="fees.md", row=4, passage="Fees.", score=0.5)
    service.on("POST", "/knowledge-bases/kb1/search/", document(models.SearchReply, results=[found]))
    out = io.StringIO()
    screen = Screen(console=Console(file=out, width=80, highlight=False))
    base = steps.build_knowledge_base(screen, blocking(service), steps.DOCUMENTS[:2])
    return base, service, out.getvalue()


def test_documents_become_a_knowledge_base_that_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aes_client.runners.time.sleep", lambda _: None)
    looks = (state("pending", "queued"), state("running", "parsing", 10), state("running", "parsing", 20))
    base, service, shown = build(*looks, state("completed", progress=100))
    assert base.status == "completed"
    uploads = [each.content for each in service.calls("POST", "/files/")]
    assert [b"skarholm-line-handbook.md" in uploads[0], b"skarholm-cafe.html" in uploads[1], len(uploads)] == [
        True,
        True,
        2,
    ]
    [made] = service.calls("POST", "/knowledge-bases/")
    assert orjson.loads(made.content) == {"name": "Skarholm Line", "file_ids": ["f1", "f2"]}
    assert [shown.count(text) for text in ("queued", "parsing", "2 documents are searchable")] == [1, 1, 1]
    assert "fees.md, row 4 · score 0.50" in shown


def test_a_document_that_fails_ends_the_demo_with_the_reason() -> None:
    error = document(models.DatasourceError, code="damaged", message="It is damaged.", phase="parsing")
    with pytest.raises(StackError, match="Some documents"):
        build(state("failed", datasource_errors={"f1": error}))
