"""Step 5: a session with files that are uploaded, asked about, generated and downloaded."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.demo.api import Api
from cli.demo.conversation import Talk, ask
from cli.demo.materials import Document, Library
from cli.demo.screen import Screen
from deploy.local.errors import StackError

_INTERVAL = 0.2
_TIMEOUT_SECONDS = 120.0
_KINDS = {"rag_indexing": "indexed for search", "structural_parsing": "its tables are known", "vision": "an image"}


def hold(
    screen: Screen,
    api: Api,
    library: Library,
    *,
    step: int,
    letter: str,
    place: Path,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[Talk, list[Path]]:
    """Opens a session with the clerk, uploads files and asks about them; also returns the downloaded files."""
    clerk = library.clerk
    screen.heading(step, clerk.part.title, "POST /api/v1/sessions/{session_id}/artifacts/")
    talk = Talk(letter, api.post("/sessions/", clerk.configuration)["session_id"], clerk)
    screen.line(f"session {letter}  {talk.session_id}", "dim")
    screen.line(f"model      {clerk.model}", "dim")
    for question, document in zip(clerk.part.questions, library.handed_over, strict=True):
        screen.blank()
        content: Any = question
        if document is not None:
            artifact = _upload(screen, api, talk, document, pause)
            block = {"type": "file", "source": {"artifact_id": artifact["artifact_id"]}}
            content = [{"type": "text", "text": question}, block]
        screen.said("you", question if document is None else f"{question} [{document.name}]")
        ask(screen, api, talk, question, content)
    made = [artifact for turn in talk.turns for artifact in turn["artifacts"]]
    screen.blank()
    return talk, [_downloaded(screen, api, talk, artifact, place) for artifact in made]


def _upload(screen: Screen, api: Api, talk: Talk, document: Document, pause: Callable[[float], None]) -> dict[str, Any]:
    began = time.monotonic()
    path = f"/sessions/{talk.session_id}/artifacts/"
    artifact: dict[str, Any] = api.upload(path, document.name, document.content)
    talk.artifacts.append(artifact["artifact_id"])
    _processed(api, f"{path}{artifact['artifact_id']}/status/", document.name, pause)
    seconds = time.monotonic() - began
    kind = _KINDS[artifact["processing_strategy"]]
    screen.good(f"{document.path}  {artifact['size']:,} bytes, {kind} after {seconds:.1f} s")
    if artifact["processing_strategy"] == "structural_parsing":
        for sheet in api.get(f"{path}{artifact['artifact_id']}/preview/")["sheets"]:
            screen.line(f"sheet “{sheet['name']}”, {sheet['row_count']} rows: {', '.join(sheet['headers'])}", "dim")
    return artifact


def _processed(api: Api, path: str, name: str, pause: Callable[[float], None]) -> None:
    waited = 0.0
    while waited < _TIMEOUT_SECONDS:
        state = api.get(path)
        if state["processing_status"] == "ready":
            return
        if state["processing_status"] == "failed":
            raise StackError(f"{name} could not be processed: {state['error']['message']}", "See: ./aes logs artifacts")
        pause(_INTERVAL)
        waited += _INTERVAL
    raise StackError(f"{name} was not processed within {_TIMEOUT_SECONDS:g} seconds.", "See: ./aes logs artifacts")


def _downloaded(screen: Screen, api: Api, talk: Talk, artifact: dict[str, Any], place: Path) -> Path:
    talk.artifacts.append(artifact["artifact_id"])
    content = api.download(f"/sessions/{talk.session_id}/artifacts/{artifact['artifact_id']}/download/")
    place.mkdir(parents=True, exist_ok=True)
    # The name comes from a model, so only its last path segment is used.
    saved = place / (Path(artifact["name"]).name or "artifact")
    saved.write_bytes(content)
    screen.good(f"{artifact['name']}  {len(content):,} bytes, downloaded")
    screen.line(str(saved), "dim")
    return saved
