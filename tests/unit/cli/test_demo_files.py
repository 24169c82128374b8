import io
import json
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from aes_client import models
from rich.console import Console

from cli.demo import steps
from cli.demo.view import Screen
from cli.terminal import print_json
from deploy.local.errors import StackError
from tests.support.cli_service import document
from tests.support.client_service import FakeService, blocking, event, events

_ERROR = {"type": "validation_error", "message": "it is damaged"}


def service_with(made: str = "income-2025.xlsx", state: str = "ready") -> FakeService:
    """Files are in processing at the first look and then `state`; the last turn makes a file."""
    service = FakeService()
    strategies = {"a1": "rag_indexing", "a2": "structural_parsing"}
    uploads = [document(models.Artifact, artifact_id=name, processing_strategy=how) for name, how in strategies.items()]
    service.on("POST", "/sessions/", document(models.SessionCreatedReply, session_id="s1"))
    service.on("POST", "/sessions/s1/artifacts/", *uploads)
    states = [document(models.ArtifactState, processing_status=each) for each in ("pending", state)]
    states[1]["error"] = _ERROR if state == "failed" else None
    for name in strategies:
        service.on("GET", f"/sessions/s1/artifacts/{name}/status/", *states)
    sheet = document(models.Sheet, name="Tickets", headers=["month", "income"], row_count=36)
    service.on("GET", "/sessions/s1/artifacts/a2/preview/", {"sheets": [sheet]})
    for artifacts in ([], [], [{"artifact_id": "a3", "name": made}]):
        reply = document(models.ExecuteReply, response={"content": "Well.", "artifacts": artifacts})
        service.on("POST", "/runtime/s1/execute/", events(event("1", "turn.completed", **reply)))
    service.on("GET", "/sessions/s1/artifacts/a3/download/", httpx.Response(200, content=b"bytes"))
    return service


def hold(service: FakeService, place: Path) -> tuple[Any, list[Path], str]:
    out = io.StringIO()
    screen = Screen(console=Console(file=out, width=80, highlight=False))
    clerk = steps.Agent.load(steps.CLERK, None)
    talk, saved = steps.exchange_files(screen, blocking(service), clerk, place)
    return talk, saved, out.getvalue()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aes_client.runners.time.sleep", lambda _: None)


def test_files_are_handed_over_asked_about_and_downloaded(tmp_path: Path) -> None:
    service = service_with()
    talk, saved, shown = hold(service, tmp_path / "demo")
    uploads = service.calls("POST", "/sessions/s1/artifacts/")
    for upload, name in zip(uploads, (b"skarholm-meeting-2026.docx", b"skarholm-tickets-2025.xlsx"), strict=True):
        assert name in upload.content
    asked = [orjson.loads(each.content)["content"] for each in service.calls("POST", "/runtime/s1/execute/")]
    blocks = [content[1]["source"]["artifact_id"] if isinstance(content, list) else None for content in asked]
    assert blocks == ["a1", "a2", None]
    assert (saved, saved[0].read_bytes()) == ([tmp_path / "demo" / "income-2025.xlsx"], b"bytes")
    assert talk.artifacts == ["a1", "a2", "a3"]
    assert "sheet “Tickets”, 36 rows: month, income" in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if str(tmp_path) not in line)


def test_what_came_of_it_is_told_to_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talk, _, _ = hold(service_with(), tmp_path)
    print_json(talk.as_json())
    told = json.loads(capsys.readouterr().out)
    assert [turn["content"] for turn in told["turns"]] == ["Well."] * 3


def test_a_name_from_a_model_leads_nowhere_else(tmp_path: Path) -> None:
    _, saved, _ = hold(service_with(made="../../etc/x.xlsx"), tmp_path)
    assert saved == [tmp_path / "x.xlsx"]


def test_a_file_that_cannot_be_processed_ends_the_demo_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="it is damaged"):
        hold(service_with(state="failed"), tmp_path)
