import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cli.demo import files, materials
from cli.demo.screen import Screen
from cli.demo.sse import ServerEvent
from deploy.local.errors import StackError


class FakeApi:
    """Files are in processing at the first look and then `state`; the last turn makes a file."""

    def __init__(self, made: str = "income-2025.xlsx", state: str = "ready") -> None:
        self.uploaded: list[str] = []
        self.asked: list[Any] = []
        self._made = made
        self._states = iter(["pending"])
        self._state = state

    def post(self, path: str, body: Any) -> dict[str, Any]:
        assert (path, body["agent_type"]) == ("/sessions/", "react_agent")
        return {"session_id": "s1"}

    def upload(self, path: str, name: str, content: bytes) -> dict[str, Any]:
        assert path == "/sessions/s1/artifacts/"
        self.uploaded.append(name)
        strategy = "structural_parsing" if name.endswith(".xlsx") else "rag_indexing"
        return {"artifact_id": f"a{len(self.uploaded)}", "size": len(content), "processing_strategy": strategy}

    def get(self, path: str) -> dict[str, Any]:
        if path.endswith("/preview/"):
            return {"sheets": [{"name": "Tickets", "headers": ["month", "income"], "row_count": 36}]}
        return {"processing_status": next(self._states, self._state), "error": {"message": "it is damaged"}}

    def stream(self, path: str, body: Any) -> Iterator[ServerEvent]:
        assert path == "/runtime/s1/execute/"
        self.asked.append(body["content"])
        made = [{"artifact_id": "a3", "name": self._made}] if len(self.asked) == 3 else []
        reply = {
            "turn_id": f"t{len(self.asked)}",
            "response": {"content": "Well.", "tool_calls": [], "citations": [], "artifacts": made},
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        yield ServerEvent("turn.completed", reply)

    def download(self, path: str) -> bytes:
        assert path == "/sessions/s1/artifacts/a3/download/"
        return b"bytes"


def hold(api: FakeApi, place: Path) -> tuple[Any, list[Path], str]:
    out = io.StringIO()
    screen = Screen(console=Console(file=out, width=80, highlight=False))
    talk, saved = files.hold(
        screen,
        api,
        materials.load(None),
        step=5,
        letter="C",
        place=place,
        pause=lambda _: None,  # type: ignore[arg-type]
    )
    return talk, saved, out.getvalue()


def test_files_are_handed_over_asked_about_and_downloaded(tmp_path: Path) -> None:
    api = FakeApi()
    talk, saved, shown = hold(api, tmp_path / "demo")
    assert api.uploaded == ["skarholm-meeting-2026.docx", "skarholm-tickets-2025.xlsx"]
    blocks = [content[1]["source"]["artifact_id"] if isinstance(content, list) else None for content in api.asked]
    assert blocks == ["a1", "a2", None]
    assert (saved, saved[0].read_bytes()) == ([tmp_path / "demo" / "income-2025.xlsx"], b"bytes")
    assert talk.artifacts == ["a1", "a2", "a3"]
    assert "sheet “Tickets”, 36 rows: month, income" in shown
    assert json.dumps(talk.as_json())
    assert all(len(line) <= 80 for line in shown.splitlines() if str(tmp_path) not in line)


def test_a_name_from_a_model_leads_nowhere_else(tmp_path: Path) -> None:
    _, saved, _ = hold(FakeApi(made="../../etc/x.xlsx"), tmp_path)
    assert saved == [tmp_path / "x.xlsx"]


def test_a_file_that_cannot_be_processed_ends_the_demo_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="it is damaged"):
        hold(FakeApi(state="failed"), tmp_path)
