"""Step 2: a knowledge base of documents that the agents answer from."""

import time
from collections.abc import Callable
from typing import Any

from cli.demo.api import Api
from cli.demo.materials import Library
from cli.demo.screen import Screen
from cli.demo.script import KNOWLEDGE_BASE, SEARCH
from deploy.local.errors import StackError

_PATH = "/knowledge-bases/"
_INTERVAL = 0.2
_TIMEOUT_SECONDS = 300.0


def build(screen: Screen, api: Api, library: Library, pause: Callable[[float], None] = time.sleep) -> dict[str, Any]:
    """Uploads the documents, creates a knowledge base and waits until it can be searched; returns it."""
    screen.heading(2, "Make a knowledge base of documents", f"POST /api/v1{_PATH}")
    file_ids = []
    for document in library.documents:
        file = api.upload("/files/", document.name, document.content)
        file_ids.append(file["id"])
        screen.good(f"{document.path}  {file['size']:,} bytes, {file['content_type'].partition(';')[0]}")
    began = time.monotonic()
    base = api.post(_PATH, {"name": KNOWLEDGE_BASE, "file_ids": file_ids})
    screen.line(f"knowledge base  {base['id']}", "dim")
    base = _ingested(screen, api, base["id"], pause)
    screen.good(f"{base['datasource_count']} documents are searchable after {time.monotonic() - began:.1f} s")
    _try(screen, api, base["id"])
    return base


def _ingested(screen: Screen, api: Api, base_id: str, pause: Callable[[float], None]) -> dict[str, Any]:
    phase, waited = "", 0.0
    while waited < _TIMEOUT_SECONDS:
        base: dict[str, Any] = api.get(f"{_PATH}{base_id}/check_status/")["knowledge_base"]
        if base["status"] == "completed":
            return base
        if base["status"] == "failed":
            for datasource_id, error in base["datasource_errors"].items():
                name = base["datasource_snapshots"].get(datasource_id, {}).get("name", datasource_id)
                screen.bad(name, error["message"])
            raise StackError("Not every document could be taken up.", "See: ./aes logs ingestion")
        reached = base["processing_metadata"].get("phase", "")
        if reached and reached != phase:
            phase = reached
            screen.line(f"{base['progress']:3} %  {phase}", "dim")
        pause(_INTERVAL)
        waited += _INTERVAL
    raise StackError(f"The documents were not ready within {_TIMEOUT_SECONDS:g} seconds.", "See: ./aes logs ingestion")


def _try(screen: Screen, api: Api, base_id: str) -> None:
    results = api.post(f"{_PATH}{base_id}/search/", {"query": SEARCH, "top_k": 1})["results"]
    screen.line(f"search “{SEARCH}”", "dim")
    for result in results:
        place = "".join(f", {kind} {result[kind]}" for kind in ("page", "row") if result.get(kind) is not None)
        screen.line(f"{result['file_name']}{place} · score {result['score']:.2f}")
