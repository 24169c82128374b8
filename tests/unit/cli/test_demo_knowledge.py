import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from cli.demo import knowledge, materials
from cli.demo.materials import Document
from cli.demo.screen import Screen
from deploy.local.errors import StackError

ERROR = {"code": "damaged", "message": "It is damaged.", "phase": "parsing", "attempt": 1, "retryable": False}


class FakeApi:
    """Answers looks at the ingestion with the `states` one after the other."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self._states = iter(states)
        self.uploaded: list[tuple[str, bytes]] = []
        self.posted: list[tuple[str, Any]] = []

    def upload(self, path: str, name: str, content: bytes) -> dict[str, Any]:
        assert path == "/files/"
        self.uploaded.append((name, content))
        return {"id": f"f{len(self.uploaded)}", "size": len(content), "content_type": "text/markdown"}

    def post(self, path: str, body: Any) -> dict[str, Any]:
        self.posted.append((path, body))
        if path.endswith("/search/"):
            return {"results": [{"file_name": "fees.md", "row": 4, "passage": "Fees.", "score": 0.5}]}
        return {"id": "kb1", **state("pending")}

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/knowledge-bases/kb1/check_status/"
        return {"knowledge_base": {"id": "kb1", **next(self._states)}}


def state(status: str, phase: str = "", progress: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "name": "Skarholm Line",
        "status": status,
        "progress": progress,
        "processing_metadata": {"phase": phase} if phase else {},
        "datasource_count": 2,
        "datasource_errors": {},
        "datasource_snapshots": {"f1": {"name": "fees.md"}},
        **more,
    }


def build(api: FakeApi) -> tuple[dict[str, Any], str]:
    out = io.StringIO()
    documents = [Document("examples/documents/fees.md", b"fees"), Document("examples/documents/b.csv", b"b")]
    library = replace(materials.load(None), documents=documents)
    screen = Screen(console=Console(file=out, width=80, highlight=False))
    base = knowledge.build(screen, api, library, pause=lambda _: None)  # type: ignore[arg-type]
    return base, out.getvalue()


def test_documents_become_a_knowledge_base_that_is_searched() -> None:
    looks = (state("pending", "queued"), state("running", "parsing", 10), state("running", "parsing", 20))
    api = FakeApi(*looks, state("completed", progress=100))
    base, shown = build(api)
    assert base["status"] == "completed"
    assert api.uploaded == [("fees.md", b"fees"), ("b.csv", b"b")]
    assert api.posted[0] == ("/knowledge-bases/", {"name": "Skarholm Line", "file_ids": ["f1", "f2"]})
    assert [shown.count(text) for text in ("queued", "parsing", "2 documents are searchable")] == [1, 1, 1]
    assert "fees.md, row 4 · score 0.50" in shown


def test_a_document_that_fails_ends_the_demo_with_the_reason() -> None:
    with pytest.raises(StackError, match="Not every document"):
        build(FakeApi(state("failed", datasource_errors={"f1": ERROR})))
