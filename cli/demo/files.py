"""Step 5: a session with files that are uploaded, asked about, generated and downloaded."""

import time
from pathlib import Path
from typing import Any

from aes_client import Client
from aes_client.models import Artifact

from cli.demo.conversation import Talk, ask
from cli.demo.materials import Document, Library
from cli.demo.screen import Screen
from deploy.local.errors import StackError

_TIMEOUT_SECONDS = 120.0
_KINDS = {"rag_indexing": "indexed for search", "structural_parsing": "its tables are known", "vision": "an image"}


def hold(
    screen: Screen, client: Client, library: Library, *, step: int, letter: str, place: Path
) -> tuple[Talk, list[Path]]:
    """Opens a session with the clerk, uploads files and asks about them; also returns the downloaded files."""
    clerk = library.clerk
    screen.heading(step, clerk.part.title, "POST /api/v1/sessions/{session_id}/artifacts/")
    talk = Talk(letter, client.sessions.create(config=clerk.configuration), clerk)
    screen.line(f"session {letter}  {talk.session.session_id}", "dim")
    screen.line(f"model      {clerk.model}", "dim")
    for question, document in zip(clerk.part.questions, library.handed_over, strict=True):
        screen.blank()
        content: Any = question
        if document is not None:
            artifact = _upload(screen, talk, document)
            block = {"type": "file", "source": {"artifact_id": artifact.artifact_id}}
            content = [{"type": "text", "text": question}, block]
        screen.said("you", question if document is None else f"{question} [{document.name}]")
        ask(screen, talk, question, content)
    made = [artifact for turn in talk.turns for artifact in turn["artifacts"]]
    screen.blank()
    return talk, [_downloaded(screen, talk, artifact, place) for artifact in made]


def _upload(screen: Screen, talk: Talk, document: Document) -> Artifact:
    began = time.monotonic()
    artifacts = talk.session.artifacts
    artifact = artifacts.upload(document.content, name=document.name)
    talk.artifacts.append(artifact.artifact_id)
    state = artifacts.wait(artifact.artifact_id, timeout=_TIMEOUT_SECONDS)
    if state.error is not None:
        raise StackError(f"{document.name} could not be processed: {state.error.message}", "See: ./aes logs artifacts")
    seconds = time.monotonic() - began
    kind = _KINDS[artifact.processing_strategy]
    screen.good(f"{document.path}  {artifact.size:,} bytes, {kind} after {seconds:.1f} s")
    if artifact.processing_strategy == "structural_parsing":
        for sheet in artifacts.preview(artifact.artifact_id).sheets:
            screen.line(f"sheet “{sheet.name}”, {sheet.row_count} rows: {', '.join(sheet.headers)}", "dim")
    return artifact


def _downloaded(screen: Screen, talk: Talk, artifact: dict[str, Any], place: Path) -> Path:
    talk.artifacts.append(artifact["artifact_id"])
    place.mkdir(parents=True, exist_ok=True)
    # The name comes from a model, so only its last path segment is used.
    saved = place / (Path(artifact["name"]).name or "artifact")
    size = talk.session.artifacts.save(artifact["artifact_id"], saved)
    screen.good(f"{artifact['name']}  {size:,} bytes, downloaded")
    screen.line(str(saved), "dim")
    return saved
