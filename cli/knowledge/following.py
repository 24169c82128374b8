"""Shows an ingestion's progress until it ends."""

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cli.knowledge.api import KnowledgeApi

_INTERVAL = 0.5
# The answer grows with the documents, so the pause grows with the time that an answer takes.
_SHARE = 5


def follow(
    api: KnowledgeApi, knowledge_base_id: str, console: Console, pause: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Shows phase, progress and failures live; returns the knowledge base at its end."""
    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("documents  {task.fields[detail]}"),
        TimeElapsedColumn(),
    )
    told: set[str] = set()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("queued", total=None, detail="")
        while True:
            asked = time.monotonic()
            base = api.status(knowledge_base_id)
            took = time.monotonic() - asked
            _show(progress, bar, base)
            for datasource_id, error in base["datasource_errors"].items():
                if datasource_id not in told:
                    told.add(datasource_id)
                    console.print(failure_line(base, datasource_id, error), soft_wrap=True)
            if base["status"] in ("completed", "failed"):
                return base
            pause(max(_INTERVAL, took * _SHARE))


def failure_line(base: dict[str, Any], datasource_id: str, error: dict[str, Any]) -> str:
    name = base["datasource_snapshots"].get(datasource_id, {}).get("name", datasource_id)
    place = f"{error['phase']}, {error['code']}"
    return f"[red]✗[/] {escape(name)}  {escape(error['message'])} [dim]({escape(place)})[/]"


def _show(progress: Progress, bar: Any, base: dict[str, Any]) -> None:
    metadata = base["processing_metadata"]
    chunks = metadata.get("processed_chunks")
    progress.update(
        bar,
        description=metadata.get("phase") or base["status"],
        completed=base["datasource_count"] + len(base["failed_datasources"]),
        total=base["total_datasources"] or None,
        detail=f"{chunks:,} chunks" if chunks else "",
    )
