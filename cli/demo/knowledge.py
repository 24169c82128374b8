"""Step 2: a knowledge base of documents that the agents answer from."""

import time

from aes_client import Client
from aes_client.models import KnowledgeBase

from cli.demo.materials import Library
from cli.demo.screen import Screen
from cli.demo.script import KNOWLEDGE_BASE, SEARCH
from cli.terminal import place_in
from deploy.local.errors import StackError

_TIMEOUT_SECONDS = 300.0


def build(screen: Screen, client: Client, library: Library) -> KnowledgeBase:
    """Uploads the documents, creates a knowledge base and waits until it can be searched; returns it."""
    screen.heading(2, "Make a knowledge base of documents", "POST /api/v1/knowledge-bases/")
    file_ids = []
    for document in library.documents:
        file = client.files.upload(document.content, name=document.name)
        file_ids.append(file.id)
        screen.good(f"{document.path}  {file.size:,} bytes, {file.content_type.partition(';')[0]}")
    began = time.monotonic()
    base = client.knowledge_bases.create(name=KNOWLEDGE_BASE, file_ids=file_ids)
    screen.line(f"knowledge base  {base.id}", "dim")
    base = _ingested(screen, client, base)
    screen.good(f"{base.datasource_count} documents are searchable after {time.monotonic() - began:.1f} s")
    _try(screen, client, base)
    return base


def _ingested(screen: Screen, client: Client, base: KnowledgeBase) -> KnowledgeBase:
    phases: set[str] = set()

    def told(reached: KnowledgeBase) -> None:
        phase = reached.processing_metadata.get("phase")
        if phase and phase not in phases:
            phases.add(phase)
            screen.line(f"{reached.progress:3} %  {phase}", "dim")

    base = client.knowledge_bases.wait(base.id, timeout=_TIMEOUT_SECONDS, on_progress=told)
    if base.status == "failed":
        for datasource_id, error in base.datasource_errors.items():
            snapshot = base.datasource_snapshots.get(datasource_id)
            screen.bad(datasource_id if snapshot is None else snapshot.name, error.message)
        raise StackError("Not every document could be taken up.", "See: ./aes logs ingestion")
    return base


def _try(screen: Screen, client: Client, base: KnowledgeBase) -> None:
    screen.line(f"search “{SEARCH}”", "dim")
    for found in client.knowledge_bases.search(base.id, query=SEARCH, top_k=1).results:
        screen.line(f"{found.file_name}{place_in(found)} · score {found.score:.2f}")
